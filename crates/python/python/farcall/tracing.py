"""Traces across processes, as W3C Trace Context and OpenTelemetry have them.

A call with ``traced="name"`` hands the context of its scope on, in front of its bytes, to a service that was
registered with ``traced="name"`` too; its handler runs in the scope of that context. The scope is a context
variable: each thread and each task has its own. While a process has a :class:`farcall.SpanRecorder`, both ends
of such calls are spans, of which the slowest are written. Its page is ``docs/tracing.md``.

>>> import asyncio, farcall
>>> from farcall import tracing
>>> header = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
>>> async def main():
...     with farcall.Node.alone() as node:
...         async with node.async_endpoint("ring+shm") as server, node.async_endpoint("ring+shm") as client:
...             @server.serve(1, traced="orders")
...             async def order(request):
...                 return tracing.current().traceparent.encode()
...             peer = await client.peer(0)
...             with tracing.scope(farcall.TraceContext.of_headers(header)):
...                 return bytes(await client.call(peer, 1, b"nails", traced="orders")).decode()
>>> asyncio.run(main()) == header
True
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeVar

from ._native import TraceContext

if TYPE_CHECKING:
    from ._native import Request

_Answer = TypeVar("_Answer")

#: The native half reads it, too.
_current: ContextVar[TraceContext | None] = ContextVar("farcall.tracing", default=None)


def current() -> TraceContext | None:
    """The context in whose scope this thread or task is.

    >>> current() is None
    True
    """
    return _current.get()


@contextmanager
def scope(context: TraceContext | None) -> Iterator[None]:
    """Enters the scope of a context, or leaves all scopes, for this thread or task.

    >>> with scope(TraceContext.root()):
    ...     current() is None
    False
    """
    before = _current.set(context)
    try:
        yield
    finally:
        _current.reset(before)


def in_scope(handler: Callable[[Request], _Answer]) -> Callable[[Request], _Answer]:
    """A handler that runs in the scope of its caller."""

    def run(request: Request) -> _Answer:
        request._taken()
        with scope(request.trace):
            return handler(request)

    return run


def in_scope_later(handler: Callable[[Request], Any]) -> Callable[[Request], Coroutine[Any, Any, Any]]:
    """As :func:`in_scope`, of one that may be a coroutine function: the scope is that of a task."""

    async def run(request: Request) -> Any:
        request._taken()
        with scope(request.trace):
            answer = handler(request)
            return await answer if isinstance(answer, Coroutine) else answer

    return run
