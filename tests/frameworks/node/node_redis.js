// node-redis, over RESP2 and RESP3; see ../README.md.
"use strict";
const assert = require("node:assert/strict");
const { createClient, WatchError } = require("redis");

async function run(RESP) {
  const options = { url: process.env.WEIR_URL, RESP };
  const client = await createClient(options).connect();
  const key = (name) => `{node-redis-${RESP}}:${name}`;

  assert.equal(await client.set(key("a"), "1", { expiration: { type: "EX", value: 100 } }), "OK");
  assert.equal(await client.incrBy(key("a"), 41), 42);
  assert.deepEqual(await client.mGet([key("a"), key("none")]), ["42", null]);
  assert.equal(await client.hSet(key("h"), { field: "value", other: "1" }), 2);
  assert.deepEqual({ ...(await client.hGetAll(key("h"))) }, { field: "value", other: "1" });
  await client.zAdd(key("z"), [{ score: 1.5, value: "one" }, { score: 2, value: "two" }]);
  assert.deepEqual((await client.zRangeWithScores(key("z"), 0, -1)).map(({ value, score }) => [value, score]), [["one", 1.5], ["two", 2]]);
  const id = await client.xAdd(key("s"), "*", { field: "value" });
  assert.equal((await client.xRange(key("s"), "-", "+"))[0].id, id);
  const found = [];
  for await (const keys of client.scanIterator({ MATCH: key("*") })) found.push(...keys);
  assert.equal(found.length, 4);

  assert.deepEqual(await client.multi().incr(key("n")).get(key("n")).exec(), [1, "1"]);
  await client.watch(key("n"));
  const other = await createClient(options).connect();
  await other.incr(key("n"));
  await assert.rejects(client.multi().incr(key("n")).exec(), WatchError);
  await assert.rejects(client.incr(key("h")), /WRONGTYPE/);
  assert.equal(await client.eval("return redis.call('get', KEYS[1])", { keys: [key("n")], arguments: [] }), "2");

  const listener = await createClient(options).connect();
  const heard = new Promise((resolve) => listener.subscribe(key("news"), resolve));
  while ((await client.publish(key("news"), "hello")) === 0);
  assert.equal(await heard, "hello");
  const blocked = other.blPop(key("list"), 20);
  await client.rPush(key("list"), "job");
  assert.equal((await blocked).element, "job");

  // A connection that is lost is made again.
  const ready = new Promise((resolve) => other.once("ready", resolve));
  other.on("error", () => {});
  await client.sendCommand(["CLIENT", "KILL", "ID", String(await other.clientId())]);
  await ready;
  assert.equal(await other.get(key("n")), "2");
  await Promise.all([client, other, listener].map((one) => one.destroy()));
}

(async () => {
  for (const version of [2, 3]) await run(version);
  console.log("node-redis", require("redis/package.json").version, "works");
  process.exit(0);
})().catch((error) => {
  console.error(error);
  process.exit(1);
});
