"""What programs do with pymemcache, at the first address; Redis clients connect to the second one."""

import sys

import redis
from pymemcache import serde
from pymemcache.client.base import Client, PooledClient
from pymemcache.exceptions import MemcacheClientError, MemcacheServerError

address = sys.argv[1]
host, port = sys.argv[2].rsplit(":", 1)
same_data = redis.Redis(host=host, port=int(port))

for kind in (Client, PooledClient):
    client = kind(address, serde=serde.pickle_serde, timeout=60, connect_timeout=60)
    client.flush_all()
    assert client.get("key") is None and client.get("key", "default") == "default"
    assert client.set("key", {"a": [1, 2]}) and client.get("key") == {"a": [1, 2]}
    assert client.set("text", "ünicode") and client.get("text") == "ünicode"
    assert client.add("key", 1, noreply=False) is False and client.add("new", 1, noreply=False) is True
    assert client.replace("none", 1, noreply=False) is False
    binary = bytes(range(256)) * 400
    assert client.set_many({f"key:{number}": binary for number in range(20)}) == []
    found = client.get_many([f"key:{number}" for number in range(25)])
    assert len(found) == 20 and all(value == binary for value in found.values())
    client.delete_many(["key:0", "key:1"])
    assert client.get_many(["key:0", "key:1", "key:2"]) == {"key:2": binary}
    assert client.set("bytes", b"b") and client.append("bytes", b"c") and client.prepend("bytes", b"a")
    assert client.get("bytes") == b"abc"
    value, unique = client.gets("bytes")
    assert value == b"abc" and client.cas("bytes", b"x", unique, noreply=False) is True
    assert client.cas("bytes", b"y", unique, noreply=False) is False
    assert client.cas("none", b"y", unique, noreply=False) is None
    assert client.set("number", b"18446744073709551615") and client.incr("number", 1) == 0
    assert client.incr("number", 5) == 5 and client.decr("number", 9) == 0 and client.incr("none", 1) is None
    assert client.touch("number", 100, noreply=False) is True and client.touch("none", noreply=False) is False
    assert client.get("number") == b"0" and client.delete("number", noreply=False) is True
    assert client.set("past", 1, expire=-1, noreply=False) and client.get("past") is None
    try:
        client.incr("text", 1)
        raise SystemExit("text is no number")
    except MemcacheClientError as error:
        assert "non-numeric" in str(error), error
    try:
        client.set("long", b"x" * (2 << 20), noreply=False)
        raise SystemExit("it is too long")
    except MemcacheServerError as error:
        assert "too large" in str(error), error
    assert client.get("key") == {"a": [1, 2]}, "the connection goes on"
    assert client.version().startswith(b"1.6.") and client.stats()[b"threads"] in (1, b"1")
    assert same_data.get("bytes") == b"x" and same_data.set("bytes", "from Redis")
    assert client.get("bytes") == b"from Redis"
    assert client.flush_all(noreply=False) and same_data.dbsize() == 0
    client.quit() if kind is Client else client.close()
print("done")
