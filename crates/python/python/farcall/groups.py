"""Collective operations for event loops."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

from . import _native

if TYPE_CHECKING:
    from ._native import Buffer, Group
    from .aio import AsyncEndpoint


class AsyncGroup:
    """As :class:`Group`, for an event loop. Operations run one after another, in the order in which they were
    called, each on a copy of its array. One that is awaited no more goes on: the other members wait for it.

    >>> import asyncio, farcall
    >>> async def main():
    ...     with farcall.Node.alone() as node:
    ...         async with node.async_endpoint("ring+shm") as endpoint:
    ...             group = endpoint.group()
    ...             return await asyncio.gather(group.all_gather(b"part"), group.barrier())
    >>> asyncio.run(main())
    [[b'part'], None]
    """

    def __init__(self, native: Group, endpoint: AsyncEndpoint) -> None:
        self._native, self._tasks, self._endpoint = native, _native.GroupTasks(native), endpoint
        self._turn = asyncio.Lock()
        # The loop itself forgets tasks that nobody holds.
        self._running: set[asyncio.Task[Any]] = set()

    @property
    def rank(self) -> int:
        """The number of this member."""
        return self._native.rank

    @property
    def size(self) -> int:
        """How many members there are."""
        return self._native.size

    async def barrier(self) -> None:
        """Returns when all members have called it."""
        await self._run(self._tasks.barrier)

    async def broadcast(self, buffer: Buffer, root: int = 0) -> None:
        """Fills a buffer, such as an array, at all members with what the root has in it."""
        await self._fill(buffer, lambda future: self._tasks.broadcast(future, buffer, root))

    async def all_reduce(self, array: Buffer, op: str = "sum") -> None:
        """Combines the arrays of all members, in place, by ``sum``, ``prod``, ``min`` or ``max``."""
        await self._fill(array, lambda future: self._tasks.all_reduce(future, array, op))

    async def gather(self, data: Buffer, root: int = 0) -> list[bytes] | None:
        """What all members give, at the root; None at the others."""
        parts = await self._run(lambda future: self._tasks.gather(future, data, root))
        return cast("list[bytes] | None", parts)

    async def all_gather(self, data: Buffer) -> list[bytes]:
        """What all members give, in their order. Lengths may differ."""
        return cast("list[bytes]", await self._run(lambda future: self._tasks.all_gather(future, data)))

    async def all_to_all(self, parts: Sequence[Buffer]) -> list[bytes]:
        """Gives each member its part, and returns what the members had for this one. Lengths may differ."""
        return cast("list[bytes]", await self._run(lambda future: self._tasks.all_to_all(future, parts)))

    def close(self) -> None:
        """Ends the use of the group."""
        self._native.close()

    async def _fill(self, buffer: Buffer, begin: Callable[[asyncio.Future[Any]], None]) -> None:
        _native.fill(buffer, await self._run(begin))

    async def _run(self, begin: Callable[[asyncio.Future[Any]], None]) -> Any:
        task = asyncio.ensure_future(self._in_turn(begin))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return await asyncio.shield(task)

    async def _in_turn(self, begin: Callable[[asyncio.Future[Any]], None]) -> Any:
        async with self._turn:
            return await self._endpoint.outcome(begin)
