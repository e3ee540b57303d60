"""The store, as the program of this wheel serves it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import farcall
import pytest
from conftest import LONG
from farcall.cluster import transport_of_store
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st


@pytest.fixture
def table(address: str) -> Iterator[farcall.Table]:
    """A table, empty."""
    with farcall.open_store(address) as store:
        store.drop_table("python")
        yield store.table("python")


def test_objects_have_versions(table: farcall.Table) -> None:
    assert table.get(b"k") is None
    first = table.put(b"k", b"one", farcall.tables.ABSENT)
    with pytest.raises(farcall.WrongVersionError) as wrong:
        table.put(b"k", b"two", farcall.tables.ABSENT)
    assert wrong.value.version == first
    second = table.put(b"k", bytearray(b"two"), first)
    assert table.get(b"k") == (b"two", second)
    with pytest.raises(farcall.WrongVersionError):
        table.remove(b"k", first)
    assert table.remove(b"k") == second
    assert table.remove(b"k") is None


def test_numbers_are_counted(table: farcall.Table) -> None:
    assert [table.increment(b"n"), table.increment(b"n", 10), table.increment(b"n", -12)] == [1, 11, -1]
    table.put(b"word", b"no number")
    with pytest.raises(farcall.StoreError):
        table.increment(b"word")


def test_many_at_once(table: farcall.Table) -> None:
    objects = [(b"key %d" % n, b"v" * n) for n in range(300)]
    versions = table.put_many(objects)
    assert all(isinstance(version, int) for version in versions)
    found = table.get_many([key for key, _ in objects] + [b"none"])
    assert found[:-1] == list(zip((value for _, value in objects), versions, strict=True))
    assert found[-1] is None


def test_what_cannot_be_stored(address: str, table: farcall.Table) -> None:
    with pytest.raises(farcall.StoreError, match="key"):
        table.get(b"")
    with pytest.raises(farcall.StoreError, match="value"):
        table.put(b"k", bytes(2 << 20))
    with farcall.open_store(address) as store:
        gone = store.table("gone")
        assert store.drop_table("gone")
        with pytest.raises(farcall.UnknownTableError):
            gone.get(b"k")


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(key=st.binary(min_size=1, max_size=100), value=st.binary(max_size=20_000))
def test_any_object_comes_back(table: farcall.Table, key: bytes, value: bytes) -> None:
    version = table.put(key, value)
    assert table.get(key) == (value, version)


def test_a_store_without_a_log_gives_no_level(address: str) -> None:
    with farcall.open_store(address) as store:
        with pytest.raises(farcall.LevelRefusedError, match="--data"):
            store.table("kept", "flushed")
        assert store.table("brief", "memory").put(b"k", b"v").level == "memory"


def test_in_an_event_loop(address: str) -> None:
    async def main() -> None:
        with farcall.Node.of_store(address) as node:
            async with node.async_endpoint(transport_of_store(node)) as endpoint:
                table = await endpoint.store([0]).table("loop")
                await asyncio.gather(*(table.increment(b"n") for _ in range(50)))
                found = await table.get(b"n")
                assert found is not None and found.value == b"50"
                with pytest.raises(farcall.WrongVersionError):
                    await table.put(b"n", b"", 12345)
                await table.put_many([(b"a", b"1")])
                many = await table.get_many([b"a", b"b"])
                assert many[0] is not None and many[1] is None
                removed = await table.remove(b"n")
                assert removed is not None and removed.level == "memory"
                with pytest.raises(farcall.LevelRefusedError):
                    await endpoint.store([0]).table("kept", "flushed")

    asyncio.run(asyncio.wait_for(main(), LONG))
