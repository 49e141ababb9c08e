// ioredis against Weir; see ../README.md. (It speaks RESP2; `protocol` is for versions that can do more.)
const assert = require('node:assert')
const Redis = require('ioredis')

const connect = (protocol) =>
  new Redis({
    port: Number(process.env.WEIR_PORT),
    username: process.env.WEIR_USER || undefined,
    password: process.env.WEIR_SECRET || undefined,
    protocol,
    maxRetriesPerRequest: 5,
    connectTimeout: 20000,
  })

async function run(protocol) {
  const client = connect(protocol)
  const key = (name) => `{js${protocol}}:${name}`
  const check = async (got, wanted) => assert.deepStrictEqual(await got, wanted)

  await check(client.ping(), 'PONG')
  await check(client.set(key('a'), '1'), 'OK')
  await check(client.get(key('a')), '1')
  await check(client.get(key('none')), null)
  await check(client.set(key('a'), '2', 'NX'), null)
  await check(client.incrby(key('a'), 5), 6)
  await check(client.append(key('s'), 'hello'), 5)
  await check(client.getrange(key('s'), 1, 2), 'el')
  await check(client.mset(key('m1'), 'x', key('m2'), 'y'), 'OK')
  await check(client.mget(key('m1'), key('none'), key('m2')), ['x', null, 'y'])
  await check(client.getBuffer(key('m1')), Buffer.from('x'))
  await check(client.exists(key('m1'), key('none')), 1)
  await check(client.type(key('m1')), 'string')
  const found = []
  for await (const keys of client.scanStream({ match: key('m*') })) found.push(...keys)
  assert.deepStrictEqual(found.sort(), [key('m1'), key('m2')])
  await check(client.del(key('m1'), key('none')), 1)

  await check(client.setex(key('t'), 100, 'v'), 'OK')
  assert((await client.ttl(key('t'))) > 97)
  await check(client.persist(key('t')), 1)
  await check(client.ttl(key('t')), -1)

  await check(client.setbit(key('b'), 7, 1), 0)
  await check(client.bitcount(key('b')), 1)

  const pipeline = client.pipeline()
  for (let i = 0; i < 200; i++) pipeline.set(key(`p${i}`), i).get(key(`p${i}`))
  const replies = await pipeline.exec()
  replies.forEach(([error, value], at) => {
    assert.strictEqual(error, null)
    assert.strictEqual(value, at % 2 ? String((at - 1) / 2) : 'OK')
  })

  const transaction = await client.multi().incr(key('tx')).incr(key('tx')).exec()
  assert.deepStrictEqual(transaction, [[null, 1], [null, 2]])
  await client.watch(key('tx'))
  await client.incr(key('tx'))
  assert.strictEqual(await client.multi().incr(key('tx')).exec(), null, 'what was watched had changed')
  await check(client.get(key('tx')), '3')

  await assert.rejects(client.incr(key('s')), /not an integer/)

  // A connection that was lost is made again, logged in.
  const victim = connect(protocol)
  const id = await victim.client('ID')
  victim.stream.destroy()
  await check(victim.get(key('s')), 'hello')
  assert.notStrictEqual(await victim.client('ID'), id)
  client.disconnect()
  victim.disconnect()
}

run(2)
  .then(() => run(3))
  .then(() => console.log('ioredis works'))
  .catch((error) => {
    console.error(error)
    process.exit(1)
  })
