// redlock: one holder at a time; see ../README.md.
"use strict";
const assert = require("node:assert/strict");
const Redis = require("ioredis");
const Redlock = require("redlock");

async function main() {
  const client = new Redis(process.env.WEIR_URL);
  const patient = new Redlock([client], { retryCount: 500, retryDelay: 20, retryJitter: 10 });
  const hasty = new Redlock([client], { retryCount: 0 });

  let within = 0;
  let most = 0;
  const one = async () => {
    const lock = await patient.lock("locks:one", 30_000);
    most = Math.max(most, ++within);
    await new Promise((resolve) => setTimeout(resolve, 5));
    within--;
    await lock.unlock();
  };
  await Promise.all(Array.from({ length: 20 }, one));
  assert.equal(most, 1);

  const lock = await hasty.lock(["locks:a", "locks:b"], 30_000);
  await assert.rejects(hasty.lock("locks:b", 30_000));
  const longer = await lock.extend(60_000);
  assert.ok((await client.pttl("locks:b")) > 30_000);
  await longer.unlock();
  await (await hasty.lock("locks:b", 30_000)).unlock();
  console.log("redlock", require("redlock/package.json").version, "works");
  process.exit(0);
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
