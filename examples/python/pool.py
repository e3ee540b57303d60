"""A pool of workers behind one name; one of them leaves in the middle, and no call is lost.

    farcall registry &
    python pool.py 3 200
"""

from __future__ import annotations

import collections
import multiprocessing
import multiprocessing.synchronize
import os
import sys

import farcall

SQUARE, LEAVE = 1, 2


def work(ready: multiprocessing.synchronize.Event) -> None:
    """Serves until it is told to leave."""
    with farcall.Node.open() as node, node.endpoint("ring+shm") as endpoint:

        @endpoint.serve(SQUARE)
        def square(request: farcall.Request) -> bytes:
            return b"%d %d" % (int(bytes(request.payload)) ** 2, os.getpid())

        @endpoint.serve(LEAVE)
        def leave(request: farcall.Request) -> None:
            endpoint.stop()

        listener = endpoint.listen("pool")
        ready.set()
        endpoint.run()
        # What has arrived is answered; what comes now goes to the others.
        endpoint.leave(listener)


def main() -> None:
    workers, calls = int(sys.argv[1]), int(sys.argv[2])
    start = multiprocessing.get_context("spawn")
    events = [start.Event() for _ in range(workers)]
    processes = [start.Process(target=work, args=(event,), daemon=True) for event in events]
    for process in processes:
        process.start()
    for event in events:
        event.wait()
    with farcall.Node.open() as node, node.endpoint("ring+shm") as endpoint:
        pool = endpoint.connect("pool")
        pool.peer(30.0)
        while pool.servers() < workers:
            endpoint.poll(0.01)
        served: collections.Counter[int] = collections.Counter()
        for number in range(calls):
            if number == calls // 2 and workers > 1:
                pool.call(LEAVE, b"")
            result, process_id = map(int, bytes(pool.call(SQUARE, b"%d" % number, 30.0)).split())
            assert result == number**2
            served[process_id] += 1
        print(f"{served.total()} calls, served by {len(served)} workers")


if __name__ == "__main__":
    main()
