"""A member of a group: `group.py TRANSPORT PROCESSES [dies|loop]`."""

from __future__ import annotations

import asyncio
import os
import signal
import sys

import farcall
import numpy as np

#: Generous: reached only when something hangs.
LONG = 60.0


def operations(endpoint: farcall.Endpoint, group: farcall.Group) -> None:
    rank, size = group.rank, group.size
    group.barrier()
    for kind in (np.int8, np.uint16, np.int32, np.uint64, np.float32, np.float64):
        values = (np.arange(1000) % 7 + rank).astype(kind)
        expected = sum((np.arange(1000) % 7 + other).astype(kind) for other in range(size))
        group.all_reduce(values)
        assert np.array_equal(values, expected), kind
    values = np.array([rank + 1.0, -rank])
    group.all_reduce(values, "max")
    assert values.tolist() == [size, 0]
    grid = np.full((3, 4), rank, np.int64)
    group.broadcast(grid, size - 1)
    assert (grid == size - 1).all()
    parts = group.all_gather(bytes([rank]) * rank)
    assert parts == [bytes([other]) * other for other in range(size)]
    gathered = group.gather(np.array([rank], np.uint8), 0)
    assert gathered == ([bytes([other]) for other in range(size)] if rank == 0 else None)
    sent = [np.array([rank, other], np.uint8) for other in range(size)]
    assert group.all_to_all(sent) == [bytes([other, rank]) for other in range(size)]
    loan = endpoint.loan(2)
    with memoryview(loan) as view:
        view[:] = bytes([rank, rank])
    assert group.all_gather(loan) == [bytes([other, other]) for other in range(size)]
    mistakes(group)


async def in_a_loop(endpoint: farcall.AsyncEndpoint) -> None:
    group = endpoint.group(1)
    rank, size = group.rank, group.size
    values, grid, single = np.full(1000, rank + 1.0), np.full((3, 4), rank, np.int64), np.array(rank)
    # In the order of the calls, at all members, however many wait for their turn.
    outcomes = await asyncio.gather(
        group.barrier(),
        group.all_reduce(values),
        group.broadcast(grid, size - 1),
        group.all_reduce(single, "max"),
        group.all_gather(bytes([rank]) * rank),
        group.gather(np.array([rank], np.uint8), 0),
        group.all_to_all([np.array([rank, other], np.uint8) for other in range(size)]),
        group.all_reduce(np.zeros((0, 3))),
    )
    assert (values == size * (size + 1) / 2).all() and (grid == size - 1).all() and single == size - 1
    assert outcomes[4] == [bytes([other]) * other for other in range(size)]
    assert outcomes[5] == ([bytes([other]) for other in range(size)] if rank == 0 else None)
    assert outcomes[6] == [bytes([other, rank]) for other in range(size)]
    # One that is awaited no more goes on, and the next has its turn after it.
    cancelled = asyncio.ensure_future(group.barrier())
    await asyncio.sleep(0)
    cancelled.cancel()
    await group.barrier()
    for wrong in (np.zeros(3, np.complex128), np.zeros(6)[::2], b"bytes"):
        try:
            await group.all_reduce(wrong)
        except (TypeError, BufferError):
            continue
        raise AssertionError(f"{wrong!r} was taken")
    await group.barrier()


def mistakes(group: farcall.Group) -> None:
    for wrong in (np.zeros(3, np.complex128), np.zeros(3, ">f8"), np.zeros(6)[::2], b"bytes"):
        try:
            group.all_reduce(wrong)
        except (TypeError, BufferError):
            continue
        raise AssertionError(f"{wrong!r} was taken")
    try:
        group.broadcast(bytearray(1), group.size)
    except ValueError:
        return
    raise AssertionError("there is no such member")


async def loop(node: farcall.Node, transport: str) -> None:
    async with node.async_endpoint(transport) as endpoint:
        await in_a_loop(endpoint)


def main() -> None:
    transport, processes = sys.argv[1], int(sys.argv[2])
    node = farcall.Node.local(processes)
    if sys.argv[3:] == ["loop"]:
        asyncio.run(asyncio.wait_for(loop(node, transport), LONG))
        if node.rank == 0:
            print(f"{processes} agree")
        return
    with node.endpoint(transport) as endpoint:
        group = endpoint.group()
        if sys.argv[3:] == ["dies"]:
            group.barrier()
            if node.rank == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            try:
                group.barrier()
            except farcall.CollectiveError as error:
                if node.rank == 0:
                    print(str(error)[: len("member 1 is down")])
            return
        operations(endpoint, group)
        if node.rank == 0:
            print(f"{processes} agree")
        group.barrier()


if __name__ == "__main__":
    main()
