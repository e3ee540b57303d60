// What programs do with node-redis and ioredis, at the port that is the argument.
import assert from "node:assert/strict";
import { createClient } from "redis";
import Redis from "ioredis";

const port = Number(process.argv[2]);

async function nodeRedis(RESP) {
  const client = await createClient({ socket: { port, host: "127.0.0.1" }, RESP }).connect();
  await client.flushAll();
  assert.equal(await client.set("key", "value", { EX: 100, NX: true }), "OK");
  assert.equal(await client.get("key"), "value");
  assert.equal(await client.hSet("hash", { one: "1", two: "2" }), 2);
  assert.deepEqual({ ...(await client.hGetAll("hash")) }, { one: "1", two: "2" });
  assert.equal(await client.rPush("list", ["a", "b", "c"]), 3);
  assert.deepEqual(await client.lRange("list", 0, -1), ["a", "b", "c"]);
  assert.equal(await client.zAdd("scores", [{ score: 1.5, value: "a" }, { score: -1, value: "b" }]), 2);
  const ranked = await client.zRangeWithScores("scores", 0, -1);
  assert.deepEqual(ranked.map(({ score, value }) => [value, score]), [["b", -1], ["a", 1.5]]);
  assert.deepEqual(await client.multi().incr("n").sAdd("set", "x").exec(), [1, 1]);
  const found = [];
  for await (const keys of client.scanIterator({ TYPE: "zset" })) found.push(...keys);
  assert.deepEqual(found, ["scores"]);
  const other = await client.duplicate().connect();
  const popped = other.blPop("queue", 60);
  await client.lPush("queue", "element");
  assert.deepEqual({ ...(await popped) }, { key: "queue", element: "element" });
  const heard = new Promise((resolve) => other.subscribe("channel", resolve));
  while ((await client.publish("channel", "message")) === 0);
  assert.equal(await heard, "message");
  await assert.rejects(client.lPush("hash", "x"), /WRONGTYPE/);
  other.destroy();
  await client.close();
}

async function ioredis() {
  const client = new Redis(port, "127.0.0.1");
  await client.flushall();
  const binary = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte));
  await client.hset("hash", "field", binary);
  assert.deepEqual(await client.hgetBuffer("hash", "field"), binary);
  const results = await client.pipeline().zadd("scores", 1, "a", 2, "b").zrevrange("scores", 0, -1, "WITHSCORES").exec();
  assert.deepEqual(results, [[null, 2], [null, ["b", "2", "a", "1"]]]);
  const other = client.duplicate();
  const moved = other.blmove("from", "to", "LEFT", "RIGHT", 60);
  await client.rpush("from", "x");
  assert.equal(await moved, "x");
  assert.deepEqual(await client.lrange("to", 0, -1), ["x"]);
  const members = [];
  await client.sadd("set", ...Array.from({ length: 1000 }, (_, number) => String(number)));
  for await (const found of client.sscanStream("set")) members.push(...found);
  assert.equal(new Set(members).size, 1000);
  other.disconnect();
  await client.quit();
}

await nodeRedis(2);
await nodeRedis(3);
await ioredis();
console.log("done");
