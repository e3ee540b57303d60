"""A service by name, of any number of processes, for event loops.

    farcall registry &
    python service.py serve &
    python service.py serve &
    python service.py call 8
"""

from __future__ import annotations

import asyncio
import os
import sys

import farcall

WORD_COUNT = 1


async def serve(node: farcall.Node) -> None:
    """Counts words, and waits for each as long as a database would let it."""
    async with node.async_endpoint("ring+shm") as endpoint:

        @endpoint.serve(WORD_COUNT)
        async def count(request: farcall.Request) -> bytes:
            words = len(bytes(request.payload).split())
            await asyncio.sleep(0.01)
            return f"{words} words, counted by process {os.getpid()}".encode()

        endpoint.listen("words")
        await asyncio.Event().wait()


async def call(node: farcall.Node, count: int) -> None:
    """Has texts counted, all at the same time."""
    async with node.async_endpoint("ring+shm") as endpoint:
        words = endpoint.connect("words", "two-choices")
        texts = [b"a word " * number for number in range(count)]
        for answer in await asyncio.gather(*(words.call(WORD_COUNT, text, 10.0) for text in texts)):
            print(bytes(answer).decode())


def main() -> None:
    node = farcall.Node.open()
    if sys.argv[1:2] == ["serve"]:
        asyncio.run(serve(node))
    else:
        asyncio.run(call(node, int(sys.argv[2]) if len(sys.argv) > 2 else 4))


if __name__ == "__main__":
    main()
