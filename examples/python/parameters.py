"""A parameter server: workers fit a line to data that each has a part of: `python parameters.py 3`.

Rank 0 holds the parameters. Workers ask for them, compute a gradient from their own data, and push it.
"""

from __future__ import annotations

import sys

import farcall
import numpy as np

PULL, PUSH = 1, 2
STEPS, RATE = 300, 0.1
SLOPE, INTERCEPT = 3.0, -2.0


def serve(endpoint: farcall.Endpoint, workers: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Holds the parameters until all workers have pushed all of their gradients."""
    parameters = np.zeros(2)
    pushed = 0

    @endpoint.serve(PULL)
    def pull(request: farcall.Request) -> farcall.Loan:
        loan = endpoint.loan(parameters.nbytes)
        with memoryview(loan) as view:
            np.frombuffer(view, np.float64)[:] = parameters
        return loan

    @endpoint.serve(PUSH)
    def push(request: farcall.Request) -> None:
        nonlocal pushed
        # Read where it arrived.
        parameters[:] -= RATE / workers * np.frombuffer(request.payload, np.float64)
        pushed += 1

    endpoint.run(lambda: pushed == workers * STEPS)
    return parameters


def work(endpoint: farcall.Endpoint, rank: int) -> None:
    """Fits to data of its own."""
    random = np.random.default_rng(rank)
    x = random.uniform(-1, 1, 1000)
    y = SLOPE * x + INTERCEPT + random.normal(0, 0.01, x.size)
    server = endpoint.peer(0)
    for _ in range(STEPS):
        slope, intercept = np.frombuffer(endpoint.call(server, PULL, b""), np.float64)
        error = slope * x + intercept - y
        endpoint.call(server, PUSH, np.array([(error * x).mean(), error.mean()]))


def main() -> None:
    workers = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    node = farcall.Node.local(workers + 1)
    with node.endpoint("ring+shm") as endpoint:
        if node.rank == 0:
            slope, intercept = serve(endpoint, workers)
            print(f"{workers} workers: y = {slope:.1f} x + {intercept:.1f}")
        elif node.rank is not None:
            work(endpoint, node.rank)
        node.barrier("done")


if __name__ == "__main__":
    main()
