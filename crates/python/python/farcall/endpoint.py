"""Endpoints of threads: calls that wait, and handlers that run while the thread polls."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Self

from . import _native
from .tables import Store
from .tracing import in_scope

if TYPE_CHECKING:
    from ._native import Buffer, Deferred, Group, Request

    #: Answers a request with bytes, or with None for an answer without any.
    Handler = Callable[[Request], Buffer | Deferred | None]

#: How long `Endpoint.run` waits before it looks at its condition again, in seconds.
_LOOK_SECONDS = 0.1


def assignments(settings: Mapping[str, object] | None) -> list[str]:
    """Settings as the library reads them."""
    return [f"{name}={value}" for name, value in (settings or {}).items()]


class Endpoint(_native.Endpoint):
    """One thread's door to its peers; it belongs to the thread that opened it.

    Handlers run while the thread polls: in :meth:`poll` and :meth:`run`, and while it waits for an operation.

    >>> import threading, farcall
    >>> node, opened = farcall.Node.alone(), threading.Event()
    >>> def serve():
    ...     with node.endpoint("ring+shm") as server:
    ...         @server.serve(1)
    ...         def shout(request):
    ...             return bytes(request.payload).upper()
    ...         @server.serve(2)
    ...         def stop(request):
    ...             server.stop()
    ...         opened.set()
    ...         server.run()
    >>> thread = threading.Thread(target=serve)
    >>> thread.start()
    >>> opened.wait()
    True
    >>> client = node.endpoint("ring+shm")
    >>> bytes(client.call(client.peer(0), 1, b"hello"))
    b'HELLO'
    >>> len(client.call(client.peer(0), 2, b""))
    0
    >>> thread.join(); client.close(); node.close()
    """

    _is_stopped = False

    def __new__(
        cls, node: _native.Node, transport: str = "auto", settings: Mapping[str, object] | None = None
    ) -> Self:
        return super().__new__(cls, node, transport, assignments(settings))

    def serve(self, service: int, traced: str | None = None) -> Callable[[Handler], Handler]:
        """Registers a handler for a service, 0 to 65534, as a decorator. It gets each request, and what it
        returns is the answer; :class:`farcall.Refuse` refuses, other exceptions reach the caller as
        :class:`farcall.HandlerError`. A handler must not wait: :meth:`Request.defer` postpones the answer.
        One that is traced, under the name of its spans, takes calls that are, too: see
        :mod:`farcall.tracing`."""

        def register(handler: Handler) -> Handler:
            self._serve(service, handler if traced is None else in_scope(handler), traced)
            return handler

        return register

    def run(self, until: Callable[[], bool] | None = None) -> None:
        """Serves until :meth:`stop` is called, which a handler may do, or until a condition holds, which is
        looked at every 100 ms and after each request."""
        while not self._is_stopped and not (until is not None and until()):
            self.poll(_LOOK_SECONDS)
        self._is_stopped = False
        # Answers of the last handlers leave with a poll.
        self.poll()

    def stop(self) -> None:
        """Ends :meth:`run`."""
        self._is_stopped = True

    def group(self, number: int = 0, ranks: Iterable[int] | None = None) -> Group:
        """The group of these ranks, or of all, for collective operations. Groups of an endpoint that exist at
        the same time or one after another have different numbers.

        >>> import farcall
        >>> with farcall.Node.alone() as node, node.endpoint("ring+shm") as endpoint:
        ...     endpoint.group().all_gather(b"part")
        [b'part']
        """
        return self._group(number, None if ranks is None else list(ranks))

    def store(self, ranks: Iterable[int]) -> Store:
        """A client of the store whose shards are on these ranks, in their order."""
        return Store(self._store(list(ranks)))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
