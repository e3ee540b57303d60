"""A cache in front of something slow, in the store, so that all processes of a cluster share it.

    farcall kv serve --tables default &
    python cache.py 127.0.0.1:7117
"""

from __future__ import annotations

import sys
import time

import farcall


def slow(number: int) -> bytes:
    """Stands for a query that takes its time."""
    time.sleep(0.02)
    return str(sum(range(number))).encode()


class Cache:
    """Results by number, with a count of what it saved."""

    def __init__(self, store: farcall.Store) -> None:
        self._table = store.table("cache")

    def get(self, number: int) -> bytes:
        """The result, computed unless some process has done so."""
        key = b"sum %d" % number
        found = self._table.get(key)
        if found is not None:
            self._table.increment(b"hits")
            return found.value
        result = slow(number)
        try:
            self._table.put(key, result, farcall.tables.ABSENT)
        except farcall.WrongVersionError:
            # Another process was faster, with the same result.
            pass
        return result

    def hits(self) -> int:
        """How many results did not have to be computed, for all processes together."""
        return self._table.increment(b"hits", 0)


def main() -> None:
    with farcall.open_store(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:7117") as store:
        store.drop_table("cache")
        cache = Cache(store)
        results = [cache.get(number % 10) for number in range(50)]
        assert results[:10] * 5 == results
        print(f"50 results, of which {cache.hits()} came from the cache")


if __name__ == "__main__":
    main()
