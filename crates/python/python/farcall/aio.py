"""Endpoints of event loops.

An :class:`AsyncEndpoint` is polled by callbacks of its loop. As long as operations are in flight, each callback
polls for some microseconds, in which most answers arrive; then it announces a wait, and the loop sleeps until the
endpoint's descriptor is readable.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, cast

from . import _native
from .endpoint import assignments
from .errors import ClosedError, NoServerError, NotConnectedError, refusal_of
from .groups import AsyncGroup
from .tables import AsyncStore
from .tracing import in_scope_later

if TYPE_CHECKING:
    from ._native import Buffer, Listener, Loan, Message, Payload, Peer, Request

    #: Answers a request, at once or as a coroutine.
    AsyncHandler = Callable[[Request], Buffer | None | Awaitable[Buffer | None]]

#: How long a callback polls for the ends of operations in flight, in microseconds.
SPIN_US = 20
#: Polls without an event before the loop sleeps.
_QUIET_TURNS = 3
#: How long an operation that only looks sleeps between two looks, in seconds.
_LOOK_SECONDS = 0.002


class AsyncEndpoint:
    """An endpoint of the event loop in which it was opened.

    >>> import asyncio, farcall
    >>> async def main():
    ...     with farcall.Node.alone() as node:
    ...         async with node.async_endpoint("ring+shm") as server, node.async_endpoint("ring+shm") as client:
    ...             @server.serve(1)
    ...             async def double(request):
    ...                 await asyncio.sleep(0)
    ...                 return bytes(request.payload) * 2
    ...             peer = await client.peer(0)
    ...             answers = await asyncio.gather(*(client.call(peer, 1, bytes([n])) for n in range(3)))
    ...             return [bytes(answer) for answer in answers]
    >>> asyncio.run(main())
    [b'\\x00\\x00', b'\\x01\\x01', b'\\x02\\x02']
    """

    def __init__(
        self, node: _native.Node, transport: str = "auto", settings: Mapping[str, object] | None = None
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._native = _native.Endpoint(node, transport, assignments(settings))
        self._handlers: dict[int, AsyncHandler] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_scheduled = self._is_waiting = False
        self._quiet_turns = 0
        self._timer: asyncio.TimerHandle | None = None
        self._descriptor = self._native.fileno()
        self._loop.add_reader(self._descriptor, self._wake)
        self._schedule()

    async def call(
        self, peer: Peer, service: int, data: Buffer, timeout: float | None = None, traced: str | None = None
    ) -> Payload:
        """Calls a service and waits for the answer; a call that is awaited no more is cancelled. One that is
        traced, under the name of its span, hands the context of its scope on: see :mod:`farcall.tracing`."""
        future = self._loop.create_future()
        operation = self._native._post_call(future, peer, service, data, timeout, traced)
        if not self._is_scheduled:
            self._schedule()
        try:
            return cast("Payload", await future)
        except asyncio.CancelledError:
            self._cancel(operation)
            raise

    async def send(self, peer: Peer, tag: int, data: Buffer, timeout: float | None = None) -> None:
        """Sends a tagged message, and waits until it has left."""
        future = self._loop.create_future()
        operation = self._native._post_send(future, peer, tag, data, timeout)
        self._schedule()
        try:
            await future
        except asyncio.CancelledError:
            if operation is not None:
                self._cancel(operation)
            raise

    async def receive(
        self, source: Peer | None = None, tag: int | None = None, timeout: float | None = None
    ) -> Message:
        """Waits for a message from a peer, or any, with a tag, or any."""
        future = self._loop.create_future()
        operation = self._native._post_receive(future, source, tag, timeout)
        self._schedule()
        try:
            return cast("Message", await future)
        except asyncio.CancelledError:
            self._cancel(operation)
            raise

    def serve(self, service: int, traced: str | None = None) -> Callable[[AsyncHandler], AsyncHandler]:
        """Registers a handler, a function or a coroutine function, for a service; as a decorator. One that is
        traced, under the name of its spans, takes calls that are, too: see :mod:`farcall.tracing`."""

        def register(handler: AsyncHandler) -> AsyncHandler:
            self._handlers[service] = handler if traced is None else in_scope_later(handler)
            self._native._serve(service, None, traced)
            return handler

        return register

    def trace(self, on: bool = True) -> None:
        """From now on the endpoint traces what it does, or no more: spans have their stages then."""
        self._native.trace(on)

    async def peer(self, rank: int, timeout: float = 5.0) -> Peer:
        """Endpoint 0 of the process of that rank, over the same transport; waits until it is published."""
        deadline = time.monotonic() + timeout
        while True:
            try:
                return self._native.peer(rank, 0, 0.0)
            except NotConnectedError:
                if time.monotonic() >= deadline:
                    raise
            await asyncio.sleep(_LOOK_SECONDS)

    def close_peer(self, peer: Peer) -> None:
        """Ends the session to a peer."""
        self._native.close_peer(peer)
        self._schedule()

    def on_peer_down(self, callback: Callable[[Peer, Exception], object] | None) -> None:
        """From now on `callback` is notified of sessions that end, and why."""
        self._native.on_peer_down(callback)

    def loan(self, length: int) -> Loan:
        """Memory of the fabric that is sent without a copy."""
        return self._native.loan(length)

    def listen(self, name: str) -> Listener:
        """Lists the endpoint under a name, until it or the object that is returned is closed."""
        return self._native.listen(name)

    def connect(self, target: str, balance: str = "round-robin") -> AsyncConnection:
        """The servers of a name; `balance` is ``round-robin`` or ``two-choices``."""
        return AsyncConnection(self._native.connect(target, balance), self)

    def group(self, number: int = 0, ranks: Iterable[int] | None = None) -> AsyncGroup:
        """The group of these ranks, or of all, for collective operations; as :meth:`Endpoint.group`."""
        return AsyncGroup(self._native._group(number, None if ranks is None else list(ranks)), self)

    def store(self, ranks: Iterable[int]) -> AsyncStore:
        """A client of the store whose shards are on these ranks, in their order."""
        return AsyncStore(self._native._store(list(ranks)), self)

    async def outcome(self, begin: Callable[[asyncio.Future[Any]], object]) -> Any:
        """Begins an operation with a future, and waits for what this gets."""
        future = self._loop.create_future()
        begin(future)
        self._schedule()
        return await future

    async def aclose(self) -> None:
        """Waits for the handlers that run, sends their answers, and closes the endpoint."""
        if not self._native.closed:
            if self._tasks:
                await asyncio.wait(self._tasks)
            self._native.poll()
            self.close()

    def close(self) -> None:
        """Closes the endpoint at once; what is in flight ends with ClosedError."""
        if self._native.closed:
            return
        self._loop.remove_reader(self._descriptor)
        if self._timer is not None:
            self._timer.cancel()
        for task in self._tasks:
            task.cancel()
        self._native._fail_all(ClosedError("the endpoint was closed while this was in flight"))
        self._native.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def _cancel(self, operation: int) -> None:
        if not self._native.closed:
            self._native._cancel(operation)

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._turn)

    def _wake(self) -> None:
        # Outside of an announced wait the descriptor says nothing, and a turn is scheduled already.
        if self._is_waiting:
            self._turn()

    def _turn(self) -> None:
        self._is_scheduled = False
        native = self._native
        if native.closed:
            return
        if self._is_waiting:
            self._is_waiting = False
            native._finish_wait()
        done, has_requests = native._turn(SPIN_US)
        if has_requests:
            for request in native._take_requests():
                self._answer(request)
        if done:
            self._quiet_turns = 0
        elif self._quiet_turns < _QUIET_TURNS:
            self._quiet_turns += 1
        elif self._sleep():
            return
        self._schedule()

    def _sleep(self) -> bool:
        """Announces a wait; False if there is something to do."""
        at_most = self._native._prepare_wait()
        if at_most is None:
            return False
        self._is_waiting = True
        when = self._loop.time() + at_most
        # One that comes too early only polls.
        if self._timer is None or not self._loop.time() < self._timer.when() <= when:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self._loop.call_at(when, self._schedule)
        return True

    def _answer(self, request: Request) -> None:
        try:
            answer = self._handlers[request.service](request)
            if isinstance(answer, Coroutine):
                task = self._loop.create_task(self._answer_later(request, answer))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            else:
                request.reply(cast("Buffer | None", answer))
        except Exception as error:
            request.refuse(*refusal_of(error))

    async def _answer_later(self, request: Request, answer: Awaitable[Buffer | None]) -> None:
        try:
            request.reply(await answer)
        except Exception as error:
            request.refuse(*refusal_of(error))
        self._schedule()


class AsyncConnection:
    """A name, and the servers that listen under it, which come and go."""

    def __init__(self, native: _native.Connection, endpoint: AsyncEndpoint) -> None:
        self._native, self._endpoint = native, endpoint

    async def call(
        self, service: int, data: Buffer, timeout: float | None = None, traced: str | None = None
    ) -> Payload:
        """Calls a service of one of the servers; another one gets the call if it certainly did not run."""
        begin = self._native.call
        answer = await self._endpoint.outcome(lambda future: begin(service, data, timeout, traced, future))
        return cast("Payload", answer)

    async def peer(self, timeout: float = 5.0) -> Peer:
        """One of the servers, waited for at most `timeout` seconds."""
        deadline = time.monotonic() + timeout
        while True:
            try:
                return self._native.peer(0.0)
            except NoServerError:
                if time.monotonic() >= deadline:
                    raise
            await asyncio.sleep(_LOOK_SECONDS)

    def servers(self) -> int:
        """How many servers are known and can be reached."""
        return self._native.servers()

    def close(self) -> None:
        """Ends the use of the name."""
        self._native.close()
