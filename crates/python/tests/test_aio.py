"""Endpoints of event loops."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import farcall
import peer as services
import pytest
from conftest import LONG, Peer

Body = Callable[[farcall.AsyncEndpoint, farcall.Peer], Awaitable[None]]


@pytest.fixture
def run(registry: farcall.Node, transport: str, process: Peer) -> Callable[[Body], None]:
    """Runs a coroutine function with an endpoint and the peer."""

    def run(body: Body) -> None:
        async def main() -> None:
            async with registry.async_endpoint(transport) as endpoint:
                await body(endpoint, await endpoint.connect("peer").peer(LONG))

        asyncio.run(asyncio.wait_for(main(), LONG))

    return run


def test_calls_end_as_those_that_wait(run: Callable[[Body], None]) -> None:
    async def body(endpoint: farcall.AsyncEndpoint, peer: farcall.Peer) -> None:
        assert bytes(await endpoint.call(peer, services.ECHO, b"hello")) == b"hello"
        assert bytes(await endpoint.call(peer, services.LATER, b"later")) == b"retal"
        with pytest.raises(farcall.RefusedError) as refused:
            await endpoint.call(peer, services.REFUSE, b"\x05")
        assert refused.value.code == 5
        with pytest.raises(farcall.HandlerError, match="RuntimeError: a test raises"):
            await endpoint.call(peer, services.RAISE, b"")
        with pytest.raises(farcall.TimedOutError):
            await endpoint.call(peer, services.SILENT, b"", 0.01)
        with pytest.raises(farcall.TooLongError):
            await endpoint.call(peer, services.ECHO, bytes(1 << 30))

    run(body)


def test_hundreds_are_in_flight_together(run: Callable[[Body], None]) -> None:
    async def body(endpoint: farcall.AsyncEndpoint, peer: farcall.Peer) -> None:
        sent = [bytes([n % 256]) * (n * 37 % 3000) for n in range(400)]
        for batch in (sent[:200], sent[200:]):
            answers = await asyncio.gather(*(endpoint.call(peer, services.ECHO, one) for one in batch))
            assert [bytes(answer) for answer in answers] == batch

    run(body)


def test_a_sleeping_loop_is_woken(run: Callable[[Body], None]) -> None:
    async def body(endpoint: farcall.AsyncEndpoint, peer: farcall.Peer) -> None:
        for _ in range(3):
            # Long enough for the wait to be announced.
            await asyncio.sleep(0.01)
            assert bytes(await endpoint.call(peer, services.ECHO, b"awake")) == b"awake"

    run(body)


def test_a_call_that_is_awaited_no_more_is_cancelled(run: Callable[[Body], None]) -> None:
    async def body(endpoint: farcall.AsyncEndpoint, peer: farcall.Peer) -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await endpoint.call(peer, services.SILENT, b"")
        assert bytes(await endpoint.call(peer, services.ECHO, b"on")) == b"on"

    run(body)


def test_what_is_in_flight_ends_with_the_endpoint(run: Callable[[Body], None]) -> None:
    async def body(endpoint: farcall.AsyncEndpoint, peer: farcall.Peer) -> None:
        call = asyncio.ensure_future(endpoint.call(peer, services.SILENT, b""))
        named = asyncio.ensure_future(endpoint.connect("peer").call(services.SILENT, b""))
        await asyncio.sleep(0.01)
        endpoint.close()
        for ended in (call, named):
            with pytest.raises(farcall.ClosedError):
                await ended

    run(body)


def test_a_peer_that_is_killed(run: Callable[[Body], None]) -> None:
    async def body(endpoint: farcall.AsyncEndpoint, peer: farcall.Peer) -> None:
        downs: asyncio.Queue[Exception] = asyncio.Queue()
        endpoint.on_peer_down(lambda who, why: downs.put_nowait(why))
        with pytest.raises(farcall.PeerDeadError):
            await endpoint.call(peer, services.DIE, b"")
        assert isinstance(await downs.get(), farcall.PeerDeadError)

    run(body)


def test_messages_and_handlers_of_coroutines(registry: farcall.Node, transport: str) -> None:
    async def main() -> None:
        async with (
            registry.async_endpoint(transport) as server,
            registry.async_endpoint(transport) as client,
        ):
            together = asyncio.Barrier(3)

            @server.serve(1)
            async def meet(request: farcall.Request) -> bytes:
                await together.wait()
                return bytes(request.payload) + b"!"

            @server.serve(2)
            def at_once(request: farcall.Request) -> None:
                return None

            @server.serve(3)
            async def fail(request: farcall.Request) -> None:
                raise farcall.Refuse(9, "nine")

            server.listen("both")
            connection = client.connect("both", "two-choices")
            peer = await connection.peer(LONG)
            # Each waits for the others: none blocks the loop.
            answers = await asyncio.gather(*(connection.call(1, name) for name in (b"a", b"b", b"c")))
            assert sorted(map(bytes, answers)) == [b"a!", b"b!", b"c!"]
            assert len(await client.call(peer, 2, b"")) == 0
            with pytest.raises(farcall.RefusedError, match="code 9: nine"):
                await client.call(peer, 3, b"")
            receive = asyncio.ensure_future(server.receive(tag=5))
            await client.send(peer, 5, b"message")
            message = await receive
            assert bytes(message) == b"message"
            await server.send(message.peer, 6, bytes(200_000))
            assert len(await client.receive(peer, 6)) == 200_000

    asyncio.run(asyncio.wait_for(main(), LONG))
