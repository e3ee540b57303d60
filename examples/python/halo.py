"""Heat on a ring of processes, each with a row of cells; neighbours exchange edges: `python halo.py 4 100`."""

from __future__ import annotations

import sys

import farcall
import numpy as np

CELLS = 64
TO_LEFT, TO_RIGHT = 1, 2


def main() -> None:
    processes, steps = (int(text) for text in (sys.argv[1:] + ["2", "100"][len(sys.argv) - 1 :]))
    node = farcall.Node.local(processes)
    with node.endpoint("ring+shm") as endpoint:
        group = endpoint.group()
        left = endpoint.peer((group.rank - 1) % group.size)
        right = endpoint.peer((group.rank + 1) % group.size)
        # A cell of each neighbour at either end.
        cells = np.zeros(CELLS + 2)
        if group.rank == 0:
            cells[1] = 1000.0
        for _ in range(steps):
            endpoint.send(left, TO_LEFT, cells[1:2])
            endpoint.send(right, TO_RIGHT, cells[-2:-1])
            endpoint.receive_into(cells[:1], left, TO_RIGHT)
            endpoint.receive_into(cells[-1:], right, TO_LEFT)
            cells[1:-1] += (cells[:-2] + cells[2:] - 2 * cells[1:-1]) / 4
        heat = np.array([cells[1:-1].sum()])
        group.all_reduce(heat)
        if group.rank == 0:
            print(f"{processes} processes, {steps} steps: {heat[0]:.3f} of 1000 units of heat")
        group.barrier()


if __name__ == "__main__":
    main()
