"""What programs do with redis-py's cluster client; the argument is the port of one of three servers."""

import sys

import redis
from redis.cluster import RedisCluster
from redis.exceptions import RedisClusterException, ResponseError

client = RedisCluster(host="127.0.0.1", port=int(sys.argv[1]))
nodes = client.get_primaries()
assert len(nodes) == 3 and len({node.port for node in nodes}) == 3, nodes
assert client.keyslot("foo") == 12182 and client.cluster_keyslot("foo") == 12182
for number in range(300):
    assert client.set(f"key:{number}", number)
assert all(client.get(f"key:{number}") == str(number).encode() for number in range(300))
sizes = [client.dbsize(target_nodes=node) for node in nodes]
assert sum(sizes) == 300 and all(size > 50 for size in sizes), sizes
assert sorted(client.scan_iter("key:1?")) == [f"key:{number}".encode() for number in range(10, 20)]
with client.pipeline() as pipeline:
    for number in range(300):
        pipeline.incr(f"key:{number}")
    assert pipeline.execute() == list(range(1, 301))
assert client.mset({"{tag}a": 1, "{tag}b": 2}) and client.mget("{tag}a", "{tag}b") == [b"1", b"2"]
assert client.cluster_countkeysinslot(client.keyslot("tag")) == 2
assert client.mset_nonatomic({"a": 1, "b": 2})
assert client.mget_nonatomic("a", "none", "b") == [b"1", None, b"2"]
client.zadd("{z}a", {"x": 1})
client.zadd("{z}b", {"x": 2, "y": 3})
assert client.zunionstore("{z}c", ["{z}a", "{z}b"]) == 2 and client.zscore("{z}c", "x") == 3
assert client.delete("{z}a", "{z}b", "{z}c") == 3
for wrong in (lambda: client.mget("a", "b"), lambda: client.rename("a", "b")):
    try:
        wrong()
        raise SystemExit("the keys are at different servers")
    except (RedisClusterException, ResponseError):
        pass
node = nodes[0]
plain = redis.Redis(host=node.host, port=node.port)
try:
    plain.mget("a", "b")
    raise SystemExit("the keys have different slots")
except ResponseError as error:
    assert "hash to the same slot" in str(error) or "MOVED" in str(error), error
assert client.cluster_info(target_nodes=node)["cluster_state"] == "ok"
assert client.flushall(target_nodes=RedisCluster.PRIMARIES) and client.get("key:1") is None
assert client.set("written by redis-py", "hello")
print("done")
