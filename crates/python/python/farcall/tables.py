"""The store: versioned objects in tables, on the shards of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Self, TypeVar, cast

from . import _native

if TYPE_CHECKING:
    from ._native import Buffer
    from .aio import AsyncEndpoint

#: What serves single objects: calls to shards, or slots.
N = TypeVar("N", "_native.Store", "_native.Slots")

#: The version of an object that does not exist.
ABSENT = 0


class Object(NamedTuple):
    """An object as it was when it was read."""

    value: bytes
    #: Rises with each change, and is never 0.
    version: int


class Written(int):
    """The number that a write gives, its version or the sum, which also says what the write survives.

    >>> version = Written(7, "flushed")
    >>> version + 1, version.level
    (8, 'flushed')
    """

    #: ``memory``, ``flushed``, ``replicated=N`` or ``replicated=N,flushed``: that of the table, never less.
    level: str

    def __new__(cls, number: int, level: str = "memory") -> Self:
        written = super().__new__(cls, number)
        written.level = level
        return written


def _written(pair: object) -> Written:
    return Written(*cast("tuple[int, str]", pair))


def _maybe_written(pair: object) -> Written | None:
    return None if pair is None else _written(pair)


def _many_written(pairs: object) -> list[Written | Exception]:
    return [pair if isinstance(pair, Exception) else _written(pair) for pair in cast("list[object]", pairs)]


def _object(found: tuple[bytes, int] | None) -> Object | None:
    return None if found is None else Object(*found)


class Store:
    """A client of all shards of a store; belongs to the thread of its endpoint."""

    def __init__(self, native: _native.Store) -> None:
        self._native = native

    def table(self, name: str, level: str = "memory") -> Table:
        """The table of that name, created unless it is there and survives as much: ``memory``, ``flushed``,
        ``replicated=N`` or ``replicated=N,flushed``. :class:`farcall.LevelRefusedError` where the store
        cannot give that."""
        return Table(self._native, cast(int, self._native.create_table(name, level)))

    def shards(self) -> int:
        """How many shards the store has, as shard 0 says."""
        return cast(int, self._native.shards())

    def drop_table(self, name: str) -> bool:
        """Drops a table with all that is in it; says whether it was there."""
        return cast(bool, self._native.drop_table(name))

    def close(self) -> None:
        """Ends the use of the store."""
        self._native.close()


class _Objects(Generic[N]):
    """Objects of a table, one by one."""

    def __init__(self, native: N, number: int) -> None:
        self._native: N = native
        self._number = number

    def get(self, key: Buffer, timeout: float | None = None) -> Object | None:
        """Reads an object; None if there is none."""
        return _object(self._native.get(self._number, key, timeout))

    def put(
        self, key: Buffer, value: Buffer, version: int | None = None, timeout: float | None = None
    ) -> Written:
        """Writes an object; gives its version."""
        return _written(self._native.put(self._number, key, value, version, timeout))

    def remove(self, key: Buffer, version: int | None = None, timeout: float | None = None) -> Written | None:
        """Removes an object; gives the version that it had, None if there was none."""
        return _maybe_written(self._native.remove(self._number, key, version, timeout))

    def increment(self, key: Buffer, amount: int = 1, timeout: float | None = None) -> Written:
        """Adds to the number that an object is, in decimal digits, 0 if there is none; gives the sum. It is one
        step: increments of several clients are all counted."""
        return _written(self._native.increment(self._number, key, amount, timeout))


class Table(_Objects["_native.Store"]):
    """A table: keys of 1 byte to 64 KiB, values of at most 1 MiB.

    A write with a version happens only if the object has that version, or with :data:`ABSENT` if there is none;
    :class:`farcall.WrongVersionError` has the version that is there.
    """

    def get_many(self, keys: Sequence[Buffer]) -> list[Object | None | Exception]:
        """Reads objects, with one call to each shard; each has an outcome of its own, in the order of keys."""
        return [_many(found) for found in self._native.get_many(self._number, list(keys))]

    def put_many(self, objects: Iterable[tuple[Buffer, Buffer]]) -> list[Written | Exception]:
        """Writes pairs of key and value; for each the version afterwards, or the exception."""
        triples = [(key, value, None) for key, value in objects]
        return _many_written(self._native.put_many(self._number, triples))


def _many(found: Any) -> Object | None | Exception:
    return found if found is None or isinstance(found, Exception) else Object(*found)


class AsyncStore:
    """As :class:`Store`, for an event loop."""

    def __init__(self, native: _native.Store, endpoint: AsyncEndpoint) -> None:
        self._native, self._endpoint = native, endpoint

    async def table(self, name: str, level: str = "memory") -> AsyncTable:
        """The table of that name, created unless it is there; see :meth:`Store.table`."""
        number = await self._endpoint.outcome(lambda future: self._native.create_table(name, level, future))
        return AsyncTable(self._native, number, self._endpoint)

    async def drop_table(self, name: str) -> bool:
        """Drops a table with all that is in it; says whether it was there."""
        return cast(bool, await self._endpoint.outcome(lambda future: self._native.drop_table(name, future)))

    def close(self) -> None:
        """Ends the use of the store."""
        self._native.close()


class AsyncTable:
    """As :class:`Table`, for an event loop."""

    def __init__(self, native: _native.Store, number: int, endpoint: AsyncEndpoint) -> None:
        self._native, self._number, self._endpoint = native, number, endpoint

    async def _outcome(self, begin: Callable[[Any], object]) -> Any:
        return await self._endpoint.outcome(begin)

    async def get(self, key: Buffer, timeout: float | None = None) -> Object | None:
        """Reads an object; None if there is none."""
        return _object(await self._outcome(lambda to: self._native.get(self._number, key, timeout, to)))

    async def put(
        self, key: Buffer, value: Buffer, version: int | None = None, timeout: float | None = None
    ) -> Written:
        """Writes an object; gives its version."""
        put, number = self._native.put, self._number
        return _written(await self._outcome(lambda to: put(number, key, value, version, timeout, to)))

    async def remove(
        self, key: Buffer, version: int | None = None, timeout: float | None = None
    ) -> Written | None:
        """Removes an object; gives the version that it had, None if there was none."""
        remove, number = self._native.remove, self._number
        return _maybe_written(await self._outcome(lambda to: remove(number, key, version, timeout, to)))

    async def increment(self, key: Buffer, amount: int = 1, timeout: float | None = None) -> Written:
        """Adds to the number that an object is; gives the sum."""
        increment, number = self._native.increment, self._number
        return _written(await self._outcome(lambda to: increment(number, key, amount, timeout, to)))

    async def get_many(self, keys: Sequence[Buffer]) -> list[Object | None | Exception]:
        """Reads objects, with one call to each shard; each has an outcome of its own, in the order of keys."""
        found = await self._outcome(lambda to: self._native.get_many(self._number, list(keys), to))
        return [_many(one) for one in found]

    async def put_many(self, objects: Iterable[tuple[Buffer, Buffer]]) -> list[Written | Exception]:
        """Writes pairs of key and value; for each the version afterwards, or the exception."""
        triples = [(key, value, None) for key, value in objects]
        written = await self._outcome(lambda to: self._native.put_many(self._number, triples, to))
        return _many_written(written)


class Slots:
    """Slots of the daemon of a store on this host, in memory that both share: a request takes no system call,
    and neither node nor endpoint is needed. Belongs to the thread that made it; keys and values are no longer
    than a slot (:class:`farcall.TooLongError`), for others there is :func:`farcall.open_store`.

    ::

        with farcall.Slots("127.0.0.1:7117") as slots:
            table = slots.table("users")
            table.put(b"ada", b"1815")
    """

    def __init__(self, address: str = "127.0.0.1:7117") -> None:
        self._native = _native.Slots(address)

    @property
    def depth(self) -> int:
        """How many requests can be in flight at a time."""
        return self._native.depth

    def table(self, name: str) -> SlotTable:
        """The table of that name, whether or not it is there: slots create none."""
        return SlotTable(self._native, _native.table_number(name))

    def close(self) -> None:
        """Leaves the daemon."""
        self._native.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class SlotTable(_Objects["_native.Slots"]):
    """As :class:`Table`, through slots. After a :class:`farcall.TimedOutError` or a
    :class:`farcall.PeerDeadError` a write may have happened."""

    def get_many(self, keys: Sequence[Buffer]) -> list[Object | None | Exception]:
        """Reads objects, as many at a time as there are slots; each has an outcome of its own."""
        return [_many(found) for found in self._native.get_many(self._number, list(keys))]

    def put_many(self, objects: Iterable[tuple[Buffer, Buffer]]) -> list[Written | Exception]:
        """Writes pairs of key and value, as many at a time as there are slots; for each the version
        afterwards, or the exception. Those of one key happen in no certain order."""
        return _many_written(self._native.put_many(self._number, list(objects)))
