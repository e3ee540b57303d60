"""What can go wrong, one class for each thing that a program may want to treat differently.

Each message is a sentence that says what to do. All classes derive from :class:`Error`.

>>> import farcall
>>> issubclass(farcall.PeerDeadError, farcall.PeerDownError)
True
>>> issubclass(farcall.TimedOutError, TimeoutError)
True
"""

from __future__ import annotations

import logging

_logger = logging.getLogger("farcall")

#: The code with which a handler that raised refuses.
HANDLER_FAILED = 255


class Error(Exception):
    """Anything that farcall reports."""


class UsageError(Error):
    """The program uses an object in a way that cannot work."""


class WrongThreadError(UsageError):
    """An endpoint, or what was made from it, was used in another thread than the one that opened it."""


class ForkedError(UsageError):
    """It was opened before the process forked, and belongs to the parent."""


class InHandlerError(UsageError):
    """A handler wanted to wait."""


class ClosedError(UsageError):
    """It was closed, sent or answered already."""


class SettingsError(Error, ValueError):
    """A parameter or the name of a transport is of no use."""


class ResourceError(Error, OSError):
    """The system, or memory that is lent, has none left."""


class ClusterError(Error):
    """This process has no place in its cluster, or the source of names is away."""


class OperationError(Error):
    """An operation has no result."""


class TimedOutError(OperationError, TimeoutError):
    """The deadline passed. A request may have run, may still run, or may be lost."""


class CancelledError(OperationError):
    """It was cancelled."""


class PeerDownError(OperationError, ConnectionError):
    """The session to the peer ended. A request may have run."""


class PeerDeadError(PeerDownError):
    """The peer's process ended, or it was silent for longer than the limit."""


class PeerClosedError(PeerDownError):
    """The peer closed the session."""


class PeerRestartedError(PeerDownError):
    """The peer was started again: the session belonged to its former life."""


class UnreachableError(PeerDownError):
    """Nothing answers at the peer's address."""


class NotConnectedError(OperationError, ConnectionError):
    """There is no session to the peer. Nothing was sent."""


class NoServerError(OperationError, ConnectionError):
    """No server listens under the name. Nothing was sent."""


class UnknownServiceError(OperationError):
    """The peer does not serve this service. Nothing ran."""


class LeavingError(OperationError):
    """The server is about to stop. Nothing ran; call another one."""


class NotAllowedError(OperationError):
    """The policy of the peer, or of the store, does not allow it. Nothing ran, and nothing was changed."""


class AbandonedError(OperationError):
    """The peer's handler gave no answer."""


class RefusedError(OperationError):
    """The peer's handler refused with a code of its own."""

    #: The code, 0 to 255.
    code: int
    #: What the handler said about it; empty if it said nothing.
    reason: str

    def __init__(self, message: str, code: int, reason: str = "") -> None:
        super().__init__(message, code, reason)
        self.code = code
        self.reason = reason

    def __str__(self) -> str:
        return str(self.args[0])


class HandlerError(RefusedError):
    """The peer's handler raised an exception, which its process has logged; the reason is its class and text."""


class TooLongError(OperationError, ValueError):
    """A payload, answer or loan is over a limit."""


class TooManyError(OperationError):
    """As many operations are in flight as may be; complete some first."""


class TruncatedError(OperationError):
    """The message is longer than the buffer, and is gone."""


class CollectiveError(OperationError):
    """A group is broken; the sentence names the member at fault."""


class StoreError(OperationError):
    """The store refused. Nothing was changed."""


class UnknownTableError(StoreError, KeyError):
    """There is no such table."""

    __str__ = Exception.__str__


class WrongVersionError(StoreError):
    """The object does not have the expected version."""

    #: The version that it has; 0 if there is no object.
    version: int

    def __init__(self, message: str, version: int) -> None:
        super().__init__(message)
        self.version = version


class LevelRefusedError(StoreError):
    """The store cannot give a table the level that was asked for; at the shard that refused nothing was changed."""


class StoreFullError(StoreError):
    """The store has no room."""


class Refuse(Exception):
    """Raised by a handler to refuse a request with a code of its own, 0 to 254, and a reason, of which 1024 bytes
    are sent.

    >>> raise Refuse(7, "closed on Mondays")
    Traceback (most recent call last):
    ...
    farcall.errors.Refuse: 7: closed on Mondays
    """

    #: The code.
    code: int
    #: What the caller gets beside it.
    reason: str

    def __init__(self, code: int, reason: str = "") -> None:
        if not 0 <= code < HANDLER_FAILED:
            raise ValueError(f"a handler refuses with a code of 0 to {HANDLER_FAILED - 1}, and not {code}")
        super().__init__(code, reason)
        self.code = code
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.code}: {self.reason}" if self.reason else str(self.code)


def refusal_of(error: BaseException) -> tuple[int, str]:
    """The code and reason with which an exception of a handler refuses; what is no :class:`Refuse` is logged."""
    if isinstance(error, Refuse):
        return error.code, _sendable(error.reason)
    _logger.error("a handler raised an exception, and its caller gets HandlerError", exc_info=error)
    try:
        said = str(error)
    except Exception:
        said = "its text cannot be made"
    name = type(error).__name__
    return HANDLER_FAILED, _sendable(f"{name}: {said}" if said else name)


def _sendable(text: str) -> str:
    """A text of UTF-8: what is none, such as half of a surrogate pair, is escaped."""
    return text.encode(errors="backslashreplace").decode()
