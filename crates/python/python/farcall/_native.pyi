"""The native half of the package; `farcall` itself is what programs import."""

from asyncio import Future
from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any, Protocol, Self, TypeAlias, final, overload

from typing_extensions import Buffer as _Buffer
from typing_extensions import disjoint_base

class _Array(Protocol):
    @property
    def __array_interface__(self) -> dict[str, Any]: ...

#: What has the buffer protocol; before Python 3.12 the types of numpy do not say so.
Buffer: TypeAlias = _Buffer | _Array

__version__: str

def counters() -> list[tuple[str, str, int, str, str]]: ...
def forked() -> None: ...

@final
class Peer:
    """An endpoint of another process that a session leads to; can be compared and hashed."""

    @property
    def rank(self) -> int | None:
        """The rank of its process, as that says itself; None without one."""
    @property
    def endpoint(self) -> int:
        """The number of the endpoint within its process."""
    def __hash__(self) -> int: ...

@final
class Payload:
    """Received bytes, read where they arrived, through the buffer protocol: ``memoryview(payload)``,
    ``numpy.frombuffer(payload)``. A long payload is in the sender's memory, which gets it back when the last
    view is gone; it stays when the endpoint is closed."""

    def tobytes(self) -> bytes:
        """A copy."""
    def __buffer__(self, flags: int, /) -> memoryview: ...
    def __bytes__(self) -> bytes: ...
    def __len__(self) -> int: ...
    @overload
    def __getitem__(self, index: int, /) -> int: ...
    @overload
    def __getitem__(self, index: slice, /) -> memoryview: ...
    def __eq__(self, other: object, /) -> bool: ...

@final
class Message:
    """A received message; has the buffer protocol of its payload."""

    @property
    def peer(self) -> Peer: ...
    @property
    def tag(self) -> int: ...
    @property
    def payload(self) -> Payload: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...
    def __bytes__(self) -> bytes: ...
    def __len__(self) -> int: ...

@final
class Loan:
    """Memory of the fabric: written in place through the buffer protocol, and sent without a copy. What is in it
    is left over from earlier loans. Views are released before it is sent."""

    def __buffer__(self, flags: int, /) -> memoryview: ...
    def __len__(self) -> int: ...

@final
class Principal:
    """Who a caller is, by what its transport proves and nothing that it says of itself."""

    @property
    def kind(self) -> str:
        """``uid``, ``key``, ``identity``, ``certificate``, ``password``, or ``none`` when nothing is proven."""
    @property
    def uid(self) -> int | None:
        """The number of the user of this machine; None of another kind."""
    @property
    def names(self) -> list[str]:
        """The name of the key or the identity, or the names of the certificate."""
    def has(self, identity: str) -> bool:
        """Whether this is an identity that is written as in a policy, such as ``uid 1000`` or
        ``certificate worker.example``, which is one of the names of a certificate."""
    def __eq__(self, other: object, /) -> bool: ...

@final
class Request:
    """A request, as handlers get it."""

    @property
    def peer(self) -> Peer:
        """The caller, which can be called back."""
    @property
    def principal(self) -> Principal:
        """Who the caller is, as its transport proves; see ``docs/policies.md``."""
    @property
    def service(self) -> int: ...
    @property
    def payload(self) -> Payload: ...
    @property
    def trace(self) -> TraceContext | None:
        """The context in whose scope the handler of a traced service runs."""
    def _taken(self) -> None: ...
    def defer(self) -> Deferred:
        """Postpones the answer: the handler returns, and whoever has the object that is returned answers, from
        any thread."""
    def reply(self, data: Buffer | None = None) -> None:
        """Answers now."""
    def refuse(self, code: int, reason: str = "") -> None:
        """Refuses with a code, 0 to 255, and a reason."""
    def __len__(self) -> int: ...

@final
class Deferred:
    """The duty to answer a request, from any thread. Dropped without an answer, it tells the caller so."""

    def reply(self, data: Buffer | None = None) -> None: ...
    def refuse(self, code: int, reason: str = "") -> None: ...

@disjoint_base
class Node:
    def __new__(cls, kind: str, processes: int = 1, address: str | None = None) -> Self: ...
    def close(self) -> None:
        """Leaves the cluster."""
    @property
    def rank(self) -> int | None:
        """This process's rank, from 0; None without one."""
    @property
    def size(self) -> int:
        """The number of ranks; 0 without a world."""
    @property
    def registry(self) -> str | None:
        """Where processes of this machine reach the registry that this node serves."""
    def barrier(self, name: str = "barrier", timeout: float = 30.0) -> None:
        """Returns when every rank has called it with the same name."""
    def compare_and_set(
        self, register: str, expected: int, value: Buffer, timeout: float = 5.0
    ) -> tuple[bool, int, bytes]:
        """Sets a register of the registry if its revision is the expected one, 0 for one that does not exist:
        says whether it did, and the revision and value that it has now."""
    def parameters(self) -> list[tuple[str, str, str, str]]: ...

@disjoint_base
class Endpoint:
    def __new__(cls, node: Node, transport: str, settings: list[str]) -> Self: ...
    def close(self) -> None:
        """Closes the endpoint and its sessions; what is in flight never completes."""
    @property
    def closed(self) -> bool: ...
    def peer(self, rank: int, endpoint: int = 0, timeout: float | None = None) -> Peer:
        """The endpoint of that number of the process of that rank, over the same transport; waits until it is
        published."""
    def wait_for(self, peer: Peer) -> None:
        """Waits until the session to a peer is up."""
    def close_peer(self, peer: Peer) -> None:
        """Ends the session to a peer."""
    def way(self, peer: Peer) -> str | None:
        """The transport that the session to a peer takes; None when there is none yet."""
    def principal(self, peer: Peer) -> str:
        """Who the peer of a session is as far as its transport proves it, in the words of a policy: ``uid 1000``."""
    def call(
        self, peer: Peer, service: int, data: Buffer, timeout: float | None = None, traced: str | None = None
    ) -> Payload:
        """Calls a service and waits for the answer, at most ``timeout`` seconds, or as long as
        ``endpoint.call_timeout`` says. One that is traced, under the name of its span, hands the context of its
        scope on: see ``farcall.tracing``."""
    def trace(self, on: bool = True) -> None:
        """From now on the endpoint traces what it does, or no more: spans have their stages then."""
    def send(self, peer: Peer, tag: int, data: Buffer, timeout: float | None = None) -> None:
        """Sends a tagged message and waits until it has left. In a handler it does not wait."""
    def receive(
        self, source: Peer | None = None, tag: int | None = None, timeout: float | None = None
    ) -> Message:
        """Waits for a message from a peer, or any, with a tag, or any."""
    def receive_into(
        self, buffer: Buffer, source: Peer | None = None, tag: int | None = None, timeout: float | None = None
    ) -> int:
        """As `receive`, into a buffer; says how many bytes came. A longer message is gone, with
        TruncatedError."""
    def loan(self, bytes: int) -> Loan:
        """Memory of the fabric that is sent without a copy."""
    def poll(self, timeout: float = 0.0) -> int:
        """Polls until a handler has run, at most for ``timeout`` seconds; says how many have."""
    def on_peer_down(self, callback: Callable[[Peer, Exception], object] | None) -> None:
        """From now on ``callback`` is notified, during polls, of sessions that end, and why."""
    def listen(self, name: str) -> Listener:
        """Lists the endpoint under a name, until it or the object that is returned is closed."""
    def leave(self, listener: Listener, timeout: float = 5.0) -> int:
        """Leaves before a planned stop: the name is withdrawn, requests that arrive from now on go to other
        servers, and those that have arrived are answered; says how many were not in time."""
    def connect(self, target: str, balance: str = "round-robin") -> Connection:
        """The servers of a name (``orders``), of a name at another registry (``farcall://host:7117/orders``), or
        at an address (``basic+udp://host:7001``); ``balance`` is ``round-robin`` or ``two-choices``."""
    def fileno(self) -> int: ...
    def _group(self, number: int, ranks: list[int] | None = None) -> Group: ...
    def _store(self, ranks: list[int]) -> Store: ...
    def _serve(
        self, service: int, handler: Callable[[Request], object] | None, traced: str | None = None
    ) -> None: ...
    def _post_call(
        self,
        future: Future[Any],
        peer: Peer,
        service: int,
        data: Buffer,
        timeout: float | None,
        traced: str | None = None,
    ) -> int: ...
    def _post_send(
        self, future: Future[Any], peer: Peer, tag: int, data: Buffer, timeout: float | None
    ) -> int | None: ...
    def _post_receive(
        self, future: Future[Any], source: Peer | None, tag: int | None, timeout: float | None
    ) -> int: ...
    def _cancel(self, operation: int) -> bool: ...
    def _turn(self, spin_us: int) -> tuple[int, bool]: ...
    def _fail_all(self, error: Exception) -> None: ...
    def _take_requests(self) -> list[Request]: ...
    def _prepare_wait(self) -> float | None: ...
    def _finish_wait(self) -> None: ...

@final
class Listener:
    """An endpoint is listed under a name until this or the endpoint is closed."""

    def close(self) -> None:
        """Withdraws the name."""
    def __enter__(self) -> Self: ...
    def __exit__(self, *args: object) -> None: ...

@final
class Connection:
    """A name, and the servers that listen under it, which come and go."""

    def call(
        self,
        service: int,
        data: Buffer,
        timeout: float | None = None,
        traced: str | None = None,
        _future: Future[Any] | None = None,
    ) -> Payload:
        """Calls a service of one of the servers; another one gets the call if it certainly did not run."""
    def peer(self, timeout: float = 5.0) -> Peer:
        """One of the servers, for calls and messages that must go to the same."""
    def servers(self) -> int:
        """How many servers are known and can be reached."""
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *args: object) -> None: ...

@final
class TraceContext:
    """Where in which trace a call is made: what a caller hands on so that its server's spans join its own. Can be
    compared and hashed."""

    @staticmethod
    def root() -> TraceContext:
        """The beginning of a new trace."""
    @staticmethod
    def of_headers(traceparent: str, tracestate: str | None = None) -> TraceContext | None:
        """The context that the headers of a caller say. None of a malformed one, which is counted; a malformed state
        is dropped alone."""
    @property
    def traceparent(self) -> str:
        """The header of that name."""
    @property
    def tracestate(self) -> str | None:
        """The header of that name, if there is one."""
    def __hash__(self) -> int: ...

@final
class SpanRecorder:
    """Keeps the slowest spans of this process, as many of each name, end and window, and appends them to a file at
    the end of each window of seconds, as lines of OTLP/JSON. `close` writes those of the last. A process has one;
    a forked child does not record, and may have its own."""

    def __new__(cls, path: str | PathLike[str], name: str, slowest: int = 10, window: float = 10.0) -> Self: ...
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *args: object) -> None: ...

@final
class Group:
    """A group of processes for collective operations: what MPI calls a communicator. All members call the same
    operations in the same order. One that fails, or is interrupted, breaks the group at all members."""

    @property
    def rank(self) -> int:
        """The number of this member."""
    @property
    def size(self) -> int: ...
    def barrier(self) -> None:
        """Returns when all members have called it."""
    def broadcast(self, buffer: Buffer, root: int = 0) -> None:
        """Fills a buffer, such as an array, at all members with what the root has in it."""
    def all_reduce(self, array: Buffer, op: str = "sum") -> None:
        """Combines the arrays of all members, in place, by ``sum``, ``prod``, ``min`` or ``max``."""
    def gather(self, data: Buffer, root: int = 0) -> list[bytes] | None:
        """What all members give, at the root; None at the others."""
    def all_gather(self, data: Buffer) -> list[bytes]:
        """What all members give, in their order. Lengths may differ."""
    def all_to_all(self, parts: Sequence[Buffer]) -> list[bytes]:
        """Gives each member its part, and returns what the members had for this one. Lengths may differ."""
    def close(self) -> None: ...

def fill(buffer: Buffer, data: Buffer) -> None: ...

@final
class GroupTasks:
    def __new__(cls, group: Group) -> Self: ...
    def barrier(self, future: Future[Any]) -> None: ...
    def broadcast(self, future: Future[Any], buffer: Buffer, root: int) -> None: ...
    def all_reduce(self, future: Future[Any], array: Buffer, op: str) -> None: ...
    def gather(self, future: Future[Any], data: Buffer, root: int) -> None: ...
    def all_gather(self, future: Future[Any], data: Buffer) -> None: ...
    def all_to_all(self, future: Future[Any], parts: Sequence[Buffer]) -> None: ...

@final
class Store:
    def shards(self) -> Any: ...
    def create_table(self, name: str, level: str, _future: Future[Any] | None = None) -> Any: ...
    def drop_table(self, name: str, _future: Future[Any] | None = None) -> Any: ...
    def get(
        self, table: int, key: Buffer, timeout: float | None = None, _future: Future[Any] | None = None
    ) -> Any: ...
    def put(
        self,
        table: int,
        key: Buffer,
        value: Buffer,
        version: int | None = None,
        timeout: float | None = None,
        _future: Future[Any] | None = None,
    ) -> Any: ...
    def remove(
        self,
        table: int,
        key: Buffer,
        version: int | None = None,
        timeout: float | None = None,
        _future: Future[Any] | None = None,
    ) -> Any: ...
    def increment(
        self,
        table: int,
        key: Buffer,
        amount: int,
        timeout: float | None = None,
        _future: Future[Any] | None = None,
    ) -> Any: ...
    def get_many(self, table: int, keys: list[Buffer], _future: Future[Any] | None = None) -> Any: ...
    def put_many(
        self, table: int, objects: Sequence[tuple[Buffer, Buffer, int | None]], _future: Future[Any] | None = None
    ) -> Any: ...
    def close(self) -> None: ...

def table_number(name: str) -> int: ...

@final
class Slots:
    def __new__(cls, address: str) -> Self: ...
    @property
    def depth(self) -> int: ...
    def get(self, table: int, key: Buffer, timeout: float | None = None) -> Any: ...
    def put(
        self, table: int, key: Buffer, value: Buffer, version: int | None = None, timeout: float | None = None
    ) -> Any: ...
    def remove(
        self, table: int, key: Buffer, version: int | None = None, timeout: float | None = None
    ) -> Any: ...
    def increment(self, table: int, key: Buffer, amount: int, timeout: float | None = None) -> Any: ...
    def get_many(self, table: int, keys: list[Buffer]) -> Any: ...
    def put_many(self, table: int, objects: Sequence[tuple[Buffer, Buffer]]) -> Any: ...
    def close(self) -> None: ...
