"""What programs do with redis-py, over the port and the path that are the arguments."""

import sys

import redis

for protocol in (2, 3):
    places = [{"host": "127.0.0.1", "port": int(sys.argv[1])}, {"unix_socket_path": sys.argv[2]}]
    for place in places:
        try:
            client = redis.Redis(protocol=protocol, **place)
        except TypeError:  # Older ones speak RESP2 only.
            client = redis.Redis(**place)
        client.flushall()
        binary = bytes(range(256)) * 300
        assert client.set("binary", binary) and client.get("binary") == binary
        assert client.set("locked", "by me", nx=True, px=60_000) and not client.set("locked", "by you", nx=True)
        assert 0 < client.pttl("locked") <= 60_000
        with client.pipeline(transaction=True) as pipeline:
            pipeline.incr("number").expire("number", 100).get("number")
            assert pipeline.execute() == [1, True, b"1"]
        with client.pipeline() as pipeline:
            pipeline.watch("number")
            client.incr("number")
            pipeline.multi()
            pipeline.set("number", 0)
            try:
                pipeline.execute()
                raise SystemExit("the watched key had changed")
            except redis.WatchError:
                pass
        assert client.mset({"a": 1, "b": 2}) and client.mget("a", "none", "b") == [b"1", None, b"2"]
        assert sorted(client.scan_iter("?")) == [b"a", b"b"]
        assert client.info("server")["redis_version"] and client.client_id() > 0
        assert client.rpush("list", "a", "b", "c") == 3 and client.lrange("list", 0, -1) == [b"a", b"b", b"c"]
        assert client.blpop(["none", "list"], timeout=60) in [(b"list", b"a"), [b"list", b"a"]]
        assert client.hset("hash", mapping={"one": 1, "two": binary}) == 2
        assert client.hgetall("hash") == {b"one": b"1", b"two": binary} and client.hincrby("hash", "one", 4) == 5
        assert client.sadd("set", "a", "b") == 2 and client.smembers("set") == {b"a", b"b"}
        assert client.zadd("scores", {"a": 1.5, "b": -2}) == 2 and client.zscore("scores", "a") == 1.5
        ranked = client.zrange("scores", 0, -1, withscores=True)
        assert [tuple(pair) for pair in ranked] == [(b"b", -2.0), (b"a", 1.5)], ranked
        assert sorted(client.scan_iter(_type="ZSET")) == [b"scores"] and client.type("hash") == b"hash"
        assert dict(client.hscan_iter("hash")) == client.hgetall("hash")
        try:
            client.lpush("hash", 1)
            raise SystemExit("a hash is no list")
        except redis.ResponseError as error:
            assert "kind of value" in str(error), error
        try:
            client.xadd("stream", {"a": 1})
            raise SystemExit("there are no streams")
        except redis.ResponseError as error:
            assert "unknown command" in str(error), error
        with client.lock("lock", timeout=60) as lock:
            assert lock.owned() and lock.extend(60) and lock.reacquire() and client.pttl("lock") > 50_000
            assert not client.lock("lock").acquire(blocking=False)
        assert not client.exists("lock")
        try:
            client.eval("return 1", 0)
            raise SystemExit("there is no interpreter")
        except redis.ResponseError as error:
            assert "scripts are not run" in str(error), error
        subscriber = client.pubsub()
        subscriber.subscribe("channel")
        assert subscriber.get_message(timeout=60)["type"] == "subscribe"
        assert client.publish("channel", "message") == 1
        assert subscriber.get_message(timeout=60)["data"] == b"message"
        subscriber.close()
print("done")
