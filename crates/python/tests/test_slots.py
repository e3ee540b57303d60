"""Slots of a daemon of this host."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import farcall
import pytest
from conftest import LONG, StoreProcess, serve_store, store_process


@pytest.fixture
def table(address: str) -> Iterator[farcall.SlotTable]:
    """A table, empty."""
    with farcall.open_store(address) as store:
        store.drop_table("slots")
        store.table("slots")
    with farcall.Slots(address) as slots:
        yield slots.table("slots")


def test_objects_have_versions(table: farcall.SlotTable) -> None:
    assert table.get(b"k") is None
    first = table.put(b"k", b"one", farcall.tables.ABSENT)
    with pytest.raises(farcall.WrongVersionError) as wrong:
        table.put(b"k", b"two", farcall.tables.ABSENT)
    assert (wrong.value.version, first.level) == (first, "memory")
    second = table.put(b"k", bytearray(b"two"), first)
    assert table.get(b"k", LONG) == (b"two", second)
    with pytest.raises(farcall.WrongVersionError):
        table.remove(b"k", first)
    assert table.remove(b"k") == second
    assert table.remove(b"k") is None
    assert [table.increment(b"n"), table.increment(b"n", 10), table.increment(b"n", -12)] == [1, 11, -1]
    table.put(b"word", b"no number")
    with pytest.raises(farcall.StoreError):
        table.increment(b"word")


def test_many_at_once(address: str, table: farcall.SlotTable) -> None:
    objects = [(b"key %d" % n, b"v" * (n % 40)) for n in range(600)]
    versions = table.put_many(objects)
    assert all(isinstance(version, farcall.Written) for version in versions)
    found = table.get_many([key for key, _ in objects] + [b"none"])
    assert found[:-1] == list(zip((value for _, value in objects), versions, strict=True))
    assert found[-1] is None
    assert table.get_many([]) == []
    with farcall.open_store(address) as store:
        assert store.table("slots").get(b"key 39") == found[39], "both see one store"


def test_what_slots_do_not_carry(address: str, table: farcall.SlotTable) -> None:
    with pytest.raises(farcall.StoreError, match="key"):
        table.get(b"")
    with pytest.raises(farcall.TooLongError, match="of a slot"):
        table.put(b"k", bytes(1 << 20))
    with farcall.open_store(address) as store:
        store.table("slots").put(b"long", bytes(1 << 20))
    with pytest.raises(farcall.TooLongError):
        table.get(b"long")
    with farcall.Slots(address) as slots:
        assert slots.depth > 0
        with pytest.raises(farcall.UnknownTableError):
            slots.table("nowhere").get(b"k")
        with pytest.raises(farcall.StoreError, match="name"):
            slots.table("")
    with pytest.raises(farcall.ClosedError):
        slots.table("slots").get(b"k")
    slots.close()


def test_slots_belong_to_their_thread(table: farcall.SlotTable) -> None:
    seen: list[BaseException] = []

    def use() -> None:
        try:
            table.get(b"k")
        except farcall.WrongThreadError as error:
            seen.append(error)

    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
    assert len(seen) == 1


def test_there_must_be_a_daemon() -> None:
    with pytest.raises(farcall.NoServerError, match="start it first"):
        farcall.Slots("127.0.0.1:1")
    with pytest.raises(ValueError, match="host:port"):
        farcall.Slots("nonsense")


def test_a_daemon_that_stands_still_or_dies_is_an_error() -> None:
    with store_process() as store:
        still_and_dead(store)


def still_and_dead(store: StoreProcess) -> None:
    """What a client sees of a process that is stopped, continued and killed."""
    with farcall.open_store(store.address) as client:
        client.table("slots")
    with farcall.Slots(store.address) as slots:
        table = slots.table("slots")
        table.put(b"k", b"v")
        os.kill(store.process.pid, signal.SIGSTOP)
        os.waitpid(store.process.pid, os.WUNTRACED)
        with pytest.raises(farcall.TimedOutError):
            table.put(b"k", b"late", timeout=0.01)
        with pytest.raises(farcall.TimedOutError):
            table.get(b"k", timeout=0.0)
        os.kill(store.process.pid, signal.SIGCONT)
        found = table.get(b"k", LONG)
        assert found is not None and found.value == b"late", "what was given up happened all the same"
        store.process.kill()
        store.process.wait(LONG)
        with pytest.raises(farcall.PeerDeadError):
            table.get(b"k", LONG)
        with pytest.raises(farcall.PeerDeadError):
            table.put(b"k", b"v")
        assert all(isinstance(one, farcall.PeerDeadError) for one in table.put_many([(b"k", b"v")] * 3))


def test_writes_say_what_they_survive(tmp_path: Path) -> None:
    more = ["--data", str(tmp_path / "data"), "--tables", "kept:flushed,brief", "--data-size", "64M"]
    with serve_store(*more) as address:
        with farcall.Slots(address) as slots:
            kept = slots.table("kept")
            assert kept.put(b"k", b"v").level == "flushed"
            assert kept.increment(b"n").level == "flushed"
            removed = kept.remove(b"k")
            assert removed is not None and removed.level == "flushed"
            many = kept.put_many([(b"a", b"1"), (b"b", b"2")])
            assert [one.level for one in many if isinstance(one, farcall.Written)] == ["flushed", "flushed"]
            assert slots.table("brief").put(b"k", b"v").level == "memory"
        with farcall.open_store(address) as store:
            made = store.table("made", "flushed")
            assert made.put(b"k", b"v").level == "flushed"
            assert made.increment(b"n", 2).level == "flushed"
            removed = made.remove(b"k")
            assert removed is not None and removed.level == "flushed"
            many = made.put_many([(b"a", b"1")])
            assert [one.level for one in many if isinstance(one, farcall.Written)] == ["flushed"]
            assert store.table("made").put(b"k", b"v").level == "flushed", "it stays what it is"
            with pytest.raises(farcall.LevelRefusedError, match="survives less"):
                store.table("brief", "flushed")
            with pytest.raises(farcall.LevelRefusedError, match="too few replicas"):
                store.table("more", "replicated=2,flushed")
            with pytest.raises(ValueError, match="`replicated=N`"):
                store.table("more", "safe")
