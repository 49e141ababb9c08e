// BullMQ: jobs, priorities, delays, retries, a flow, events, rates, and a worker that is killed; see ../README.md.
"use strict";
const assert = require("node:assert/strict");
const { fork } = require("node:child_process");
const { once } = require("node:events");
const { FlowProducer, Queue, QueueEvents, Worker } = require("bullmq");
const Redis = require("ioredis");

const URL = process.env.WEIR_URL;
const connect = () => new Redis(URL, { maxRetriesPerRequest: null });

/** What a job of each kind does. */
const kinds = {
  square: async (job) => job.data * job.data,
  lucky: async (job) => {
    if (job.attemptsMade === 0) throw new Error("planned");
    return "yes";
  },
  sum: async (job) => Object.values(await job.getChildrenValues()).reduce((sum, value) => sum + value, 0),
  held: async (job, client) => {
    // The first one to do it says so and never ends.
    if (await client.set("held:bullmq", 1, "NX")) await new Promise((resolve) => setTimeout(resolve, 1e6));
    return -job.data;
  },
};

function work() {
  const client = connect();
  const worker = new Worker("jobs", (job) => kinds[job.name](job, client), {
    connection: connect(),
    // What a worker has not finished is another one's after this time.
    lockDuration: 1000,
    stalledInterval: 1000,
  });
  worker.on("ready", () => process.send("ready"));
}

async function start() {
  const worker = fork(__filename, ["work"]);
  process.once("exit", () => worker.kill("SIGKILL"));
  await once(worker, "message");
  return worker;
}

async function kill(worker) {
  worker.kill("SIGKILL");
  await once(worker, "exit");
}

async function main() {
  setTimeout(() => assert.fail("in vain"), 120_000).unref();
  const queue = new Queue("jobs", { connection: connect() });
  queue.setMaxListeners(0);
  const events = new QueueEvents("jobs", { connection: connect() });
  await events.waitUntilReady();
  const done = (job) => job.waitUntilFinished(events, 120_000);

  let worker = await start();
  const squares = await queue.addBulk([...Array(50).keys()].map((data) => ({ name: "square", data })));
  assert.deepEqual(await Promise.all(squares.map(done)), [...Array(50).keys()].map((n) => n * n));
  assert.equal(await done(await queue.add("lucky", null, { attempts: 2, backoff: { type: "fixed", delay: 50 } })), "yes");
  assert.equal(await done(await queue.add("square", 9, { delay: 300 })), 81);
  await assert.rejects(done(await queue.add("lucky", null)), /planned/);
  const flow = new FlowProducer({ connection: connect() });
  const children = [3, 4].map((data) => ({ name: "square", queueName: "jobs", data }));
  const tree = await flow.add({ name: "sum", queueName: "jobs", children });
  assert.equal(await done(tree.job), 25);
  await queue.add("square", 2, { jobId: "once" });
  await queue.add("square", 2, { jobId: "once" });
  await queue.upsertJobScheduler("each", { every: 100 }, { name: "square", data: 5 });
  await once(events, "completed");
  assert.equal(await queue.removeJobScheduler("each"), true);
  await kill(worker);

  await queue.pause();
  const priorities = [3, 1, 2];
  const urgent = await Promise.all(priorities.map((priority) => queue.add("square", priority, { priority })));
  await queue.resume();
  const order = [];
  events.on("completed", ({ jobId }) => order.push(jobId));
  worker = await start();
  await Promise.all(urgent.map(done));
  assert.deepEqual(order.filter((id) => urgent.some((job) => job.id === id)), [1, 2, 0].map((at) => urgent[at].id));

  const client = connect();
  const held = await queue.addBulk([...Array(5).keys()].map((data) => ({ name: "held", data })));
  while (!(await client.exists("held:bullmq"))) await new Promise((resolve) => setTimeout(resolve, 20));
  await kill(worker);
  worker = await start();
  assert.deepEqual(await Promise.all(held.map(done)), [0, -1, -2, -3, -4].map((n) => n || 0));
  await kill(worker);

  assert.equal((await queue.getJobCounts("failed")).failed, 1);
  await queue.obliterate({ force: true });
  assert.deepEqual(await client.keys("bull:jobs:*"), []);
  console.log("bullmq", require("bullmq/package.json").version, "works");
  process.exit(0);
}

process.argv[2] === "work"
  ? work()
  : main().catch((error) => {
      console.error(error);
      process.exit(1);
    });
