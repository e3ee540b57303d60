"""Writes with pipelines of redis-py until the server is gone, and says what was acknowledged; or checks that
all of it is there: `pipelines.py PORT write`, `pipelines.py PORT check ROUNDS`."""

import sys

import redis

EACH = 20


def write(client):
    number = 0
    while True:
        try:
            with client.pipeline(transaction=number % 2 == 0) as pipeline:
                for step in range(EACH):
                    word = f"{number}:{step}"
                    pipeline.set(f"string:{word}", word, px=3_600_000)
                    pipeline.hset("hash", word, word)
                    pipeline.rpush("list", word)
                    pipeline.sadd("set", word)
                    pipeline.zadd("sorted", {word: number})
                pipeline.incr("rounds")
                replies = pipeline.execute()
        except redis.exceptions.ConnectionError:
            return
        assert replies[-1] == number + 1, replies
        number += 1
        print(number, flush=True)


def check(client, rounds):
    there = int(client.get("rounds") or 0)
    assert there >= rounds, f"{rounds} were acknowledged, and {there} are there"
    words = [f"{number}:{step}" for number in range(rounds) for step in range(EACH)]
    hashes, members = client.hgetall("hash"), client.smembers("set")
    elements = client.lrange("list", 0, -1)
    assert [element.decode() for element in elements[: len(words)]] == words
    for word in words:
        number = int(word.split(":")[0])
        assert client.get(f"string:{word}") == word.encode(), word
        assert 0 < client.pttl(f"string:{word}") <= 3_600_000, word
        assert hashes[word.encode()] == word.encode() and word.encode() in members, word
        assert client.zscore("sorted", word) == number, word
    # Of the pipeline in flight a transaction is there as a whole, or not at all.
    extra = len(elements) - len(words)
    assert extra <= EACH, extra
    if rounds % 2 == 0:
        assert extra == (there - rounds) * EACH, (extra, there, rounds)
    print("done")


def main():
    client = redis.Redis(port=int(sys.argv[1]), socket_timeout=60)
    if sys.argv[2] == "write":
        write(client)
    else:
        check(client, int(sys.argv[3]))


main()
