"""Calls that are waited for: the cases of the conformance program of C."""

from __future__ import annotations

import gc
import pickle
import threading
from collections.abc import Callable

import farcall
import numpy as np
import peer as services
import pytest
from conftest import LONG
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

SIZES = [0, 1, 30, 1000, 20_000, 100_000, 1_000_000]


def test_answers_are_those_of_the_handler(endpoint: farcall.Endpoint, peer: farcall.Peer) -> None:
    assert bytes(endpoint.call(peer, services.ECHO, b"hello", LONG)) == b"hello"
    assert bytes(endpoint.call(peer, services.LATER, b"later", LONG)) == b"retal"
    assert len(endpoint.call(peer, services.ECHO, b"")) == 0


def test_every_length_arrives(endpoint: farcall.Endpoint, peer: farcall.Peer) -> None:
    for size in SIZES:
        sent = np.arange(size, dtype=np.uint32).astype(np.uint8)
        got = endpoint.call(peer, services.ECHO, sent, LONG)
        assert np.array_equal(np.frombuffer(got, np.uint8), sent)


def test_loans_go_and_come_without_a_copy(endpoint: farcall.Endpoint, peer: farcall.Peer) -> None:
    for size in SIZES:
        loan = endpoint.loan(size)
        view = memoryview(loan)
        view[:] = b"\x06" * size
        with pytest.raises(BufferError, match="release the views"):
            endpoint.call(peer, services.LENT, loan)
        view.release()
        assert endpoint.call(peer, services.LENT, loan, LONG) == b"\x07" * size
        with pytest.raises(BufferError, match="sent already"):
            endpoint.call(peer, services.LENT, loan)


def test_failures_have_classes(endpoint: farcall.Endpoint, peer: farcall.Peer) -> None:
    with pytest.raises(farcall.RefusedError) as refused:
        endpoint.call(peer, services.REFUSE, b"\x4d", LONG)
    assert refused.value.code == 77
    assert refused.value.reason == ""
    with pytest.raises(farcall.HandlerError, match="raised an exception: RuntimeError: a test raises"):
        endpoint.call(peer, services.RAISE, b"", LONG)
    with pytest.raises(farcall.HandlerError, match="buffer protocol, and not int"):
        endpoint.call(peer, services.WRONG, b"", LONG)
    with pytest.raises(farcall.HandlerError, match="Odd: its text cannot be made"):
        endpoint.call(peer, services.ODD, b"", LONG)
    with pytest.raises(farcall.AbandonedError):
        endpoint.call(peer, services.ABANDON, b"", LONG)
    with pytest.raises(farcall.UnknownServiceError):
        endpoint.call(peer, 999, b"", LONG)
    with pytest.raises(farcall.TimedOutError):
        endpoint.call(peer, services.SILENT, b"", 0.01)
    with pytest.raises(farcall.TooLongError):
        endpoint.call(peer, services.ECHO, bytes(1 << 30))
    # None of it disturbs what comes later.
    assert bytes(endpoint.call(peer, services.ECHO, b"on", LONG)) == b"on"


def test_a_refusal_says_why(endpoint: farcall.Endpoint, peer: farcall.Peer) -> None:
    for sent, got in [("", ""), ("closed on Mondays", "closed on Mondays"), ("\ud800", "\\ud800"), ("é" * 999, "é" * 512)]:
        with pytest.raises(farcall.RefusedError) as refused:
            endpoint.call(peer, services.WHY, sent.encode("utf-8", "surrogatepass"), LONG)
        assert (refused.value.code, refused.value.reason) == (3, got)
        assert str(refused.value).endswith(f"code 3: {got}" if got else "code 3")
    again = pickle.loads(pickle.dumps(refused.value))
    assert (str(again), again.code, again.reason) == (str(refused.value), 3, "é" * 512)


def test_mistakes_are_named(endpoint: farcall.Endpoint, peer: farcall.Peer) -> None:
    with pytest.raises(TypeError, match="buffer protocol, and not str"):
        endpoint.call(peer, services.ECHO, "text")  # type: ignore[arg-type]
    with pytest.raises(BufferError, match="contiguous"):
        endpoint.call(peer, services.ECHO, np.arange(10)[::2])
    with pytest.raises(ValueError, match="timeout"):
        endpoint.call(peer, services.ECHO, b"", -1.0)
    with pytest.raises(ValueError, match="65535"):
        endpoint.serve(65535)(lambda request: None)
    with pytest.raises(OverflowError):
        endpoint.call(peer, -1, b"")


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(payload=st.binary(max_size=20_000), kind=st.sampled_from([bytes, bytearray, memoryview]))
def test_any_payload_comes_back(
    endpoint: farcall.Endpoint, peer: farcall.Peer, payload: bytes, kind: type[bytes]
) -> None:
    assert endpoint.call(peer, services.ECHO, kind(payload), LONG) == payload


def test_a_view_outlives_everything_else(registry: farcall.Node, transport: str, process: object) -> None:
    endpoint = registry.endpoint(transport)
    peer = endpoint.connect("peer").peer(LONG)
    sent = np.random.default_rng(7).integers(0, 255, 500_000, dtype=np.uint8)
    view = np.frombuffer(endpoint.call(peer, services.ECHO, sent, LONG), np.uint8)
    endpoint.close()
    del endpoint, peer
    gc.collect()
    assert not view.flags.writeable
    assert np.array_equal(view, sent)


def test_payloads_that_the_peer_keeps_do_not_stop_it(endpoint: farcall.Endpoint, peer: farcall.Peer) -> None:
    for count in range(1, 6):
        assert endpoint.call(peer, services.KEEP, bytes(50_000), LONG) == bytes([count])


def test_another_thread_is_refused(endpoint: farcall.Endpoint, peer: farcall.Peer) -> None:
    said: list[BaseException] = []

    def use_all() -> None:
        uses: list[Callable[[], object]] = [
            lambda: endpoint.call(peer, services.ECHO, b""),
            lambda: endpoint.poll(),
            lambda: endpoint.close(),
            lambda: endpoint.connect("peer"),
        ]
        for use in uses:
            try:
                use()
            except farcall.WrongThreadError as error:
                said.append(error)

    thread = threading.Thread(target=use_all)
    thread.start()
    thread.join()
    assert len(said) == 4
    assert endpoint.call(peer, services.ECHO, b"mine", LONG) == b"mine"


def test_what_is_closed_says_so(registry: farcall.Node) -> None:
    endpoint = registry.endpoint("ring+shm")
    connection, group = endpoint.connect("peer"), registry.endpoint("ring+shm")
    endpoint.close()
    endpoint.close()
    uses: list[Callable[[], object]] = [
        lambda: endpoint.poll(),
        lambda: connection.peer(0.0),
        lambda: connection.call(1, b""),
    ]
    for use in uses:
        with pytest.raises(farcall.ClosedError):
            use()
    group.close()
    registry.close()
    with pytest.raises(farcall.ClosedError):
        registry.endpoint("ring+shm")


def test_a_handler_that_is_called_back(endpoint: farcall.Endpoint, peer: farcall.Peer) -> None:
    endpoint.call(peer, services.BACK, b"and back", LONG)
    message = endpoint.receive(tag=7, timeout=LONG)
    assert (bytes(message), message.tag) == (b"and back", 7)


def test_names_of_settings_and_transports_are_checked(registry: farcall.Node) -> None:
    with pytest.raises(farcall.SettingsError, match="endpoint.idle"):
        registry.endpoint("ring+shm", {"endpoint.idel": "block"})
    with pytest.raises(farcall.SettingsError):
        registry.endpoint("pigeon")
    with registry.endpoint("ring+shm", {"endpoint.idle": "spin"}) as endpoint:
        assert not endpoint.closed
