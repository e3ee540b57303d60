"""Processes of a cluster, and what there is to see of one."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import NamedTuple, Self

from . import _native
from .aio import AsyncEndpoint
from .endpoint import Endpoint
from .errors import StoreError
from .tables import Store

#: The register in which shard 0 of a store writes the name of its transport.
_TRANSPORT_REGISTER = "farcall-kv.transport"
#: A revision that no register has, so that a comparison with it only reads.
_NEVER = 2**64 - 1
#: How long a client looks for what shard 0 writes, in seconds.
_LOOK_SECONDS = 5.0


class Parameter(NamedTuple):
    """Something that can be set, by the environment, a file or the settings of an endpoint."""

    #: Its name, such as ``ring.ring_bytes``.
    name: str
    #: Its value at the node.
    value: str
    #: The value that it has unless it is set.
    default: str
    #: A line that says what it is.
    text: str


class Counter(NamedTuple):
    """A number that only grows, or shows a present state."""

    #: The endpoint, driver or session that counts, such as ``ring+shm#0``.
    group: str
    name: str
    value: int
    unit: str
    #: A line that says what is counted.
    text: str


def counters() -> list[Counter]:
    """Every counter of this process.

    >>> with Node.alone() as node, node.endpoint("ring+shm"):
    ...     any(counter.group == "ring+shm#0" for counter in counters())
    True
    """
    return [Counter(*counter) for counter in _native.counters()]


class Node(_native.Node):
    """This process as a member of its cluster; may be used by all threads.

    >>> with Node.alone() as node:
    ...     (node.rank, node.size)
    (0, 1)
    """

    @classmethod
    def from_env(cls) -> Self:
        """What the environment describes: a rendezvous address, a list of hosts, or a launcher such as
        ``mpirun``; alone when it describes nothing."""
        return cls("env")

    @classmethod
    def local(cls, processes: int) -> Self:
        """One of several processes of this program on this machine. The first starts the others, which run the
        same program with the same arguments and get their ranks from this same call; they end with the first."""
        return cls("local", processes)

    @classmethod
    def alone(cls) -> Self:
        """A cluster of this process only."""
        return cls("alone")

    @classmethod
    def open(cls, registry: str | None = None) -> Self:
        """A process without a rank, that serves and calls by name. Names are kept by the registry at
        ``host:port``; without it where the variable ``FARCALL_NAMES`` says."""
        return cls("names", 1, registry)

    @classmethod
    def serving_names(cls, address: str = "127.0.0.1:0") -> Self:
        """As :meth:`open`, and serves the registry itself, at an address of this machine.

        >>> with Node.serving_names() as registry, Node.open(registry.registry) as node:
        ...     node.rank is None
        True
        """
        return cls("registry", 1, address)

    @classmethod
    def of_store(cls, address: str = "127.0.0.1:7117") -> Self:
        """A client of the store whose shard 0 is at an address; see :func:`open_store`."""
        return cls("store", 1, address)

    def endpoint(self, transport: str = "auto", settings: Mapping[str, object] | None = None) -> Endpoint:
        """Opens an endpoint of this thread over a transport, such as ``ring+shm`` or ``basic+udp``; ``auto`` is
        the best that both ends of each session have."""
        return Endpoint(self, transport, settings)

    def async_endpoint(
        self, transport: str = "auto", settings: Mapping[str, object] | None = None
    ) -> AsyncEndpoint:
        """Opens an endpoint of the event loop that runs."""
        return AsyncEndpoint(self, transport, settings)

    def settings(self) -> list[Parameter]:
        """Every parameter with its value.

        >>> with Node.alone() as node:
        ...     [p.default for p in node.settings() if p.name == "endpoint.idle"]
        ['block']
        """
        return [Parameter(*parameter) for parameter in self.parameters()]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@contextmanager
def open_store(address: str = "127.0.0.1:7117") -> Iterator[Store]:
    """The store that ``farcall kv serve`` serves at an address, for the calling thread.

    ::

        with farcall.open_store() as store:
            table = store.table("users")
            table.put(b"ada", b"1815")
    """
    with Node.of_store(address) as node, node.endpoint(transport_of_store(node)) as endpoint:
        shards = endpoint.store([0]).shards()
        yield endpoint.store(range(shards))


def transport_of_store(node: Node) -> str:
    """Over which transport a store is served; waits for a shard 0 that has just begun."""
    deadline = time.monotonic() + _LOOK_SECONDS
    while True:
        _, revision, transport = node.compare_and_set(_TRANSPORT_REGISTER, _NEVER, b"")
        if revision != 0:
            return bytes(transport).decode()
        if time.monotonic() >= deadline:
            raise StoreError("the store does not say over which transport it serves; start it again")
        time.sleep(0.01)
