"""Tagged messages."""

from __future__ import annotations

import threading

import farcall
import numpy as np
import pytest
from conftest import LONG


def exchange(node: farcall.Node, transport: str, here: farcall.Endpoint, send: list[tuple[int, bytes]]) -> None:
    """Sends messages to this process's endpoint from another thread."""

    def run() -> None:
        with node.endpoint(transport) as other:
            to = other.connect("here").peer(LONG)
            for tag, payload in send:
                other.send(to, tag, payload, LONG)
            assert other.receive(tag=99, timeout=LONG).tag == 99

    with here.listen("here"):
        thread = threading.Thread(target=run)
        thread.start()
        first = here.receive(tag=send[0][0], timeout=LONG)
        assert bytes(first) == send[0][1]
        for tag, payload in send[1:]:
            message = here.receive(first.peer, tag, LONG)
            assert (message.tag, bytes(message.payload)) == (tag, payload)
        here.send(first.peer, 99, b"")
        while thread.is_alive():
            here.poll(0.01)
        thread.join()


def test_messages_keep_their_order(registry: farcall.Node, endpoint: farcall.Endpoint, transport: str) -> None:
    sizes = [1, 0, 100, 10_000, 300_000]
    exchange(registry, transport, endpoint, [(3, bytes([number]) * size) for number, size in enumerate(sizes)])


def test_tags_choose(registry: farcall.Node, endpoint: farcall.Endpoint, transport: str) -> None:
    exchange(registry, transport, endpoint, [(1, b"one"), (2, b"two"), (3, b"three")])


def test_into_a_buffer(registry: farcall.Node, endpoint: farcall.Endpoint, transport: str) -> None:
    def run() -> None:
        with registry.endpoint(transport) as other:
            to = other.connect("here").peer(LONG)
            other.send(to, 0, b"", LONG)
            other.send(to, 1, np.arange(5.0), LONG)
            other.send(to, 2, bytes(1000), LONG)
            assert other.receive(tag=99, timeout=LONG).tag == 99

    with endpoint.listen("here"):
        thread = threading.Thread(target=run)
        thread.start()
        sender = endpoint.receive(tag=0, timeout=LONG).peer
        room = np.zeros(5)
        assert endpoint.receive_into(room, tag=1, timeout=LONG) == 40
        assert np.array_equal(room, np.arange(5.0))
        with pytest.raises(farcall.TruncatedError):
            endpoint.receive_into(bytearray(10), tag=2, timeout=LONG)
        with pytest.raises(BufferError, match="read-only"):
            endpoint.receive_into(bytes(10), tag=2, timeout=LONG)
        endpoint.send(sender, 99, b"")
        while thread.is_alive():
            endpoint.poll(0.01)
        thread.join()


def test_nothing_comes(endpoint: farcall.Endpoint) -> None:
    with pytest.raises(farcall.TimedOutError):
        endpoint.receive(timeout=0.01)
