"""Low-latency messaging for the processes of a cluster.

A process is a :class:`Node`; each thread that sends or receives has an :class:`Endpoint`, and each event loop
an :class:`AsyncEndpoint`. Its page is ``docs/python.md``.

>>> import farcall
>>> with farcall.Node.alone() as node, node.endpoint("ring+shm") as endpoint:
...     endpoint.closed
False
"""

from __future__ import annotations

import os as _os

from . import _native
from ._native import (
    Connection,
    Deferred,
    Group,
    Listener,
    Loan,
    Message,
    Payload,
    Peer,
    Principal,
    Request,
    SpanRecorder,
    TraceContext,
    __version__,
)
from .aio import AsyncConnection, AsyncEndpoint
from .cluster import Counter, Node, Parameter, counters, open_store
from .endpoint import Endpoint
from .errors import (
    AbandonedError,
    CancelledError,
    ClosedError,
    ClusterError,
    CollectiveError,
    Error,
    ForkedError,
    HandlerError,
    InHandlerError,
    LeavingError,
    LevelRefusedError,
    NoServerError,
    NotAllowedError,
    NotConnectedError,
    OperationError,
    PeerClosedError,
    PeerDeadError,
    PeerDownError,
    PeerRestartedError,
    Refuse,
    RefusedError,
    ResourceError,
    SettingsError,
    StoreError,
    StoreFullError,
    TimedOutError,
    TooLongError,
    TooManyError,
    TruncatedError,
    UnknownServiceError,
    UnknownTableError,
    UnreachableError,
    UsageError,
    WrongThreadError,
    WrongVersionError,
)
from .groups import AsyncGroup
from .tables import AsyncStore, AsyncTable, Object, Slots, SlotTable, Store, Table, Written

# What the parent has open is not the child's: its objects say so there.
_os.register_at_fork(after_in_child=_native.forked)

__all__ = [
    "AbandonedError",
    "AsyncConnection",
    "AsyncEndpoint",
    "AsyncGroup",
    "AsyncStore",
    "AsyncTable",
    "CancelledError",
    "ClosedError",
    "ClusterError",
    "CollectiveError",
    "Connection",
    "Counter",
    "Deferred",
    "Endpoint",
    "Error",
    "ForkedError",
    "Group",
    "HandlerError",
    "InHandlerError",
    "LeavingError",
    "LevelRefusedError",
    "Listener",
    "Loan",
    "Message",
    "NoServerError",
    "Node",
    "NotAllowedError",
    "NotConnectedError",
    "Object",
    "OperationError",
    "Parameter",
    "Payload",
    "Peer",
    "PeerClosedError",
    "PeerDeadError",
    "PeerDownError",
    "PeerRestartedError",
    "Principal",
    "Refuse",
    "RefusedError",
    "Request",
    "ResourceError",
    "SettingsError",
    "SlotTable",
    "Slots",
    "SpanRecorder",
    "Store",
    "StoreError",
    "StoreFullError",
    "Table",
    "TimedOutError",
    "TooLongError",
    "TooManyError",
    "TraceContext",
    "TruncatedError",
    "UnknownServiceError",
    "UnknownTableError",
    "UnreachableError",
    "UsageError",
    "WrongThreadError",
    "WrongVersionError",
    "Written",
    "__version__",
    "counters",
    "open_store",
]
