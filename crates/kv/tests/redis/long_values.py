"""Long values with redis-py, over the port that is the argument: as the connector of LMCache stores parts of
a model's cache, and one value of 64 MB."""

import asyncio
import sys

import redis
import redis.asyncio

PORT = int(sys.argv[1])
MIB = 1 << 20


def pattern(seed, size):
    return bytes((seed * 31 + at) % 251 for at in range(4099)) * (size // 4099) + bytes(size % 4099)


class Connector:
    """What the connector does for a key: the bytes, and what they are, each under a key of their own."""

    def __init__(self):
        pool = redis.asyncio.ConnectionPool.from_url(f"redis://127.0.0.1:{PORT}", max_connections=150)
        self.client = redis.asyncio.Redis.from_pool(pool)

    async def exists(self, key):
        return bool(await self.client.exists(key + "metadata"))

    async def put(self, key, contents):
        # The bytes first, so that who finds the description finds them.
        await self.client.set(key + "kv_bytes", memoryview(contents))
        await self.client.set(key + "metadata", len(contents).to_bytes(28, "little"))

    async def get(self, key):
        description = await self.client.get(key + "metadata")
        if description is None:
            return None
        contents = await self.client.get(key + "kv_bytes")
        if contents is None:
            await self.client.delete(key + "metadata")
            return None
        assert len(contents) == int.from_bytes(description, "little")
        return contents


async def cache():
    connector = Connector()
    sizes = [2 * MIB, 4 * MIB, 8 * MIB, 32 * MIB, 2 * MIB + 77]
    parts = {f"vllm@model@1@0@{seed:016x}@half": pattern(seed, size) for seed, size in enumerate(sizes)}
    assert not any(await asyncio.gather(*(connector.exists(key) for key in parts)))
    await asyncio.gather(*(connector.put(key, contents) for key, contents in parts.items()))
    assert all(await asyncio.gather(*(connector.exists(key) for key in parts)))
    found = await asyncio.gather(*(connector.get(key) for key in parts))
    assert found == list(parts.values())
    first = next(iter(parts))
    await connector.client.delete(first + "kv_bytes")
    assert await connector.get(first) is None and not await connector.exists(first)
    await connector.client.aclose()


client = redis.Redis(port=PORT)
asyncio.run(cache())
assert sum(1 for _ in client.scan_iter("vllm@*kv_bytes")) == 4
client.flushall()
long = pattern(7, 64 * MIB)
assert client.set("long", long, ex=100) and client.strlen("long") == len(long)
assert client.get("long") == long
assert client.getrange("long", 10 * MIB, 12 * MIB - 1) == long[10 * MIB : 12 * MIB]
with client.pipeline(transaction=False) as pipeline:
    one, other = long[: 3 * MIB], long[: 2 * MIB]
    pipeline.set("a", one).get("a").set("b", other).mget("b", "none", "a").delete("a", "b")
    assert pipeline.execute() == [True, one, True, [other, None, one], 2]
assert client.delete("long") == 1 and client.get("long") is None
print("done")
