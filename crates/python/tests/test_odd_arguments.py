"""Arguments that programs give by mistake, and memory of every shape."""

from __future__ import annotations

import array
import ctypes
import gc
import threading
from collections.abc import Callable
from typing import Any

import farcall
import numpy as np
import peer as services
import pytest
from conftest import LONG


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (np.array(5, np.int32), b"\x05\0\0\0"),
        (np.zeros((3, 0)), b""),
        (np.zeros(2, [("a", "i2"), ("O", "f4")]), bytes(12)),
        (np.array([True, False]), b"\x01\0"),
        (np.arange(4, dtype=">u2"), b"\0\0\0\x01\0\x02\0\x03"),
        (array.array("h", [1, 2]), b"\x01\0\x02\0"),
        ((ctypes.c_uint16 * 2)(1, 2), b"\x01\0\x02\0"),
        (memoryview(b"abcdef")[2:4], b"cd"),
    ],
)
def test_memory_of_every_shape_is_sent(
    endpoint: farcall.Endpoint, peer: farcall.Peer, data: farcall.Payload, expected: bytes
) -> None:
    assert bytes(endpoint.call(peer, services.ECHO, data, LONG)) == expected


def test_what_means_nothing_elsewhere_is_not_sent(endpoint: farcall.Endpoint, peer: farcall.Peer) -> None:
    pointers: list[Any] = [
        np.array([None, object()]),
        np.zeros(2, [("a", "i4"), ("b", "O")]),
        (ctypes.c_void_p * 2)(),
        (ctypes.py_object * 2)(),
    ]
    for data in pointers:
        with pytest.raises(TypeError, match="pointers"):
            endpoint.call(peer, services.ECHO, data)
        with pytest.raises(TypeError, match="pointers"):
            endpoint.receive_into(data, timeout=0.0)
    with pytest.raises(TypeError, match="ndarray: cannot include dtype 'M'"):
        endpoint.call(peer, services.ECHO, np.array(["2026-01-01"], "M8[D]"))
    for scattered in (np.arange(10)[::2], np.arange(6).reshape(2, 3).T, np.asfortranarray(np.eye(2))):
        with pytest.raises(BufferError, match="not contiguous"):
            endpoint.call(peer, services.ECHO, scattered)
    with pytest.raises(BufferError, match="read-only"):
        endpoint.receive_into(b"bytes", timeout=0.0)


def test_numbers_out_of_range_say_their_range(endpoint: farcall.Endpoint, peer: farcall.Peer) -> None:
    uses: list[tuple[Callable[[], object], str]] = [
        (lambda: endpoint.call(peer, 65536, b""), "a service is a number of 0 to 65535"),
        (lambda: endpoint.call(peer, -1, b""), "a service is a number of 0 to 65535"),
        (lambda: endpoint.send(peer, 1 << 32, b""), "a tag is a number of 0 to 4294967295"),
        (lambda: endpoint.receive(tag=-1), "a tag is a number of 0 to 4294967295"),
    ]
    for use, sentence in uses:
        with pytest.raises(OverflowError, match=sentence):
            use()
    for timeout in (-1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="finite number of seconds"):
            endpoint.call(peer, services.ECHO, b"", timeout)
    with pytest.raises(TypeError):
        endpoint.call("peer", services.ECHO, b"")  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        endpoint.call(peer, "echo", b"")  # type: ignore[arg-type]


def test_payloads_have_parts(endpoint: farcall.Endpoint, peer: farcall.Peer) -> None:
    payload = endpoint.call(peer, services.ECHO, bytes(range(200)) * 500, LONG)
    part = payload[10:13]
    del payload
    gc.collect()
    assert (list(part), part.readonly) == ([10, 11, 12], True)
    short = endpoint.call(peer, services.ECHO, b"abc", LONG)
    assert (short[0], short[-1], bytes(short[::-1]), list(short[5:])) == (97, 99, b"cba", [])
    with pytest.raises(IndexError):
        short[3]


def test_loans_that_are_copied_stay(endpoint: farcall.Endpoint, process: object) -> None:
    loan = endpoint.loan(5)
    with memoryview(loan) as view:
        view[:] = b"hello"
    with endpoint.connect("peer") as connection:
        # Another server may get it as well: it is not given away.
        for _ in range(2):
            assert bytes(connection.call(services.ECHO, loan, LONG)) == b"hello"


def test_a_loan_that_cannot_be_sent_leaves_its_request(registry: farcall.Node, transport: str) -> None:
    opened, is_over = threading.Event(), threading.Event()

    def serve() -> None:
        with registry.endpoint(transport) as server:

            @server.serve(1)
            def careless(request: farcall.Request) -> None:
                loan = server.loan(8)
                view = memoryview(loan)
                with pytest.raises(BufferError, match="release the views"):
                    request.reply(loan)
                view.release()
                request.reply(b"otherwise")

            server.listen("careless")
            opened.set()
            server.run(is_over.is_set)

    thread = threading.Thread(target=serve)
    thread.start()
    assert opened.wait(LONG)
    with registry.endpoint(transport) as client:
        assert bytes(client.connect("careless").call(1, b"", LONG)) == b"otherwise"
    is_over.set()
    thread.join()


def test_views_of_loans_outlive_everything_else(registry: farcall.Node, transport: str) -> None:
    endpoint = registry.endpoint(transport)
    view = memoryview(endpoint.loan(100_000))
    endpoint.close()
    del endpoint
    gc.collect()
    view[:] = b"b" * 100_000
    assert view[99_999] == ord("b")


def test_endpoints_of_threads_that_have_ended_are_left_alone(registry: farcall.Node, transport: str) -> None:
    kept: list[farcall.Endpoint] = []
    thread = threading.Thread(target=lambda: kept.append(registry.endpoint(transport)))
    thread.start()
    thread.join()
    with pytest.raises(farcall.WrongThreadError):
        kept[0].poll()
    kept.clear()
    gc.collect()
