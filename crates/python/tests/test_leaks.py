"""Nothing is left behind: memory, descriptors, threads, objects."""

from __future__ import annotations

import asyncio
import gc
import os
import tracemalloc
import weakref

import farcall
import peer as services
from conftest import LONG, Peer


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_calls_leave_no_memory_behind(endpoint: farcall.Endpoint, peer: farcall.Peer) -> None:
    def work() -> None:
        for size in (0, 100, 50_000):
            endpoint.call(peer, services.ECHO, bytes(size), LONG)
        try:
            endpoint.call(peer, services.RAISE, b"", LONG)
        except farcall.HandlerError:
            pass

    for _ in range(50):
        work()
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for _ in range(200):
        work()
    gc.collect()
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    # A leak of one object for each call would be 64 bytes and more for each of 800.
    assert grown < 20_000


def test_endpoints_leave_no_descriptor_behind(registry: farcall.Node, transport: str) -> None:
    def open_and_close() -> None:
        with registry.endpoint(transport) as endpoint:
            endpoint.fileno()
            endpoint.listen("short-lived")
            endpoint.connect("nobody")
            endpoint.group(1, [registry.rank] if registry.rank is not None else [2**32 - 1])

    async def open_and_close_in_loop() -> None:
        async with registry.async_endpoint(transport):
            await asyncio.sleep(0)

    def both() -> None:
        open_and_close()
        asyncio.run(open_and_close_in_loop())

    both()
    gc.collect()
    before = descriptors()
    for _ in range(5):
        both()
    gc.collect()
    # What threads of the transport close comes a moment later.
    assert descriptors() <= before + 2


def test_an_endpoint_that_is_forgotten_is_closed(registry: farcall.Node, transport: str) -> None:
    endpoint = registry.endpoint(transport)

    @endpoint.serve(1)
    def handler(request: farcall.Request) -> None:
        return None

    gone = weakref.ref(handler)
    del endpoint, handler
    gc.collect()
    assert gone() is None


def test_futures_are_forgotten(registry: farcall.Node, transport: str, process: Peer) -> None:
    async def main() -> None:
        async with registry.async_endpoint(transport) as endpoint:
            peer = await endpoint.connect("peer").peer(LONG)
            payload = await endpoint.call(peer, services.ECHO, b"x")
            for _ in range(20):
                await asyncio.gather(*(endpoint.call(peer, services.ECHO, b"x") for _ in range(20)))
            gc.collect()
            alive = [one for one in gc.get_objects() if isinstance(one, asyncio.Future) and one.done()]
            # Of 400 those of the last gather, which the loop still has.
            assert len(alive) < 60
            assert bytes(payload) == b"x"

    asyncio.run(asyncio.wait_for(main(), LONG))
