"""Sorts numbers that are spread over processes, with one exchange of all to all: `python sort.py 4 100000`.

Each process sorts its own numbers and takes samples of them; the samples of all give the bounds of the parts. Then
each sends every other one what belongs there, and merges what it gets: process 0 has the smallest numbers, in order.
"""

from __future__ import annotations

import sys

import farcall
import numpy as np

Numbers = np.ndarray[tuple[int, ...], np.dtype[np.int64]]
#: Samples of each process; with more the parts are of more equal length.
SAMPLES = 64


def sort(group: farcall.Group, numbers: Numbers) -> Numbers:
    """This process's part of the numbers of all."""
    numbers = np.sort(numbers)
    samples = numbers[:: max(1, len(numbers) // SAMPLES)]
    gathered = np.sort(np.concatenate([np.frombuffer(part, np.int64) for part in group.all_gather(samples.tobytes())]))
    bounds = gathered[:: max(1, -(-len(gathered) // group.size))][1 : group.size]
    parts = np.split(numbers, np.searchsorted(numbers, bounds, "right"))
    parts += [numbers[:0]] * (group.size - len(parts))
    received = group.all_to_all([part.tobytes() for part in parts])
    return np.sort(np.concatenate([np.frombuffer(part, np.int64) for part in received]))


def main() -> None:
    processes, count = int(sys.argv[1]), int(sys.argv[2])
    node = farcall.Node.local(processes)
    with node.endpoint("ring+shm") as endpoint:
        group = endpoint.group()
        numbers = np.random.default_rng(group.rank).integers(-(2**62), 2**62, count)
        part = sort(group, numbers)
        # All numbers are there, and no part begins before the one in front of it ends.
        total = np.array([len(part)])
        check = np.array([np.bitwise_xor.reduce(numbers) ^ np.bitwise_xor.reduce(part)])
        group.all_reduce(total)
        checks = group.all_gather(check)
        ends = [np.frombuffer(end, np.int64) for end in group.all_gather(part[[0, -1]] if len(part) else b"")]
        ends = [end for end in ends if len(end)]
        in_order = all(one[1] <= other[0] for one, other in zip(ends, ends[1:], strict=False))
        same = np.bitwise_xor.reduce([np.frombuffer(one, np.int64)[0] for one in checks]) == 0
        if group.rank == 0:
            print(f"{total[0]} numbers in {processes} processes: {'sorted' if in_order and same else 'NOT sorted'}")
        group.barrier()


if __name__ == "__main__":
    main()
