import { assert } from 'chai';
import { sharesAfter } from '../../src/packet/sql.ts';
import { mochaHooks } from '../support/engine.ts';
import { people, TestBooks } from '../support/service.ts';
import { runLoad, type LoadPlan } from './load.ts';
import { persist } from './peers/persist.ts';
import { RedisFirst } from './peers/redis-first.ts';
import { measureCpu, pidOfServer, startProcess, type BenchProcess } from './processes.ts';
import { startRedis, type BenchRedis } from './redis.ts';

/**
 * Checks of the Redis-first peer, and a short trial of each server. It must do its work right, or its figures say
 * nothing: every share once, the original on a repeat, and clean books once the consumer has caught up, though it
 * is killed on the way. Run as the benchmark: node --import tsx test/bench/check-peers.ts
 */
const seconds = Number(process.env['BENCH_SECONDS'] ?? 5);
const catchUpMs = 120_000;
const fake = { timeout: () => {} } as unknown as Mocha.Context;

async function packetIn(books: TestBooks, store: RedisFirst, shareCount: number): Promise<string> {
  const senderId = `sender-${Math.random().toString(36).slice(2)}`;
  await books.fund(senderId, shareCount * 100);
  const id = await books.packet({ senderId, totalAmount: shareCount * 100, shareCount });
  await store.load(id, await books.database.rows(sharesAfter, [id, 0, shareCount]));
  return id;
}

async function startConsumer(books: TestBooks, redis: BenchRedis): Promise<BenchProcess> {
  return await startProcess({
    file: 'peers/consumer.ts',
    env: { DATABASE_URL: books.url, REDIS_URL: redis.url },
  });
}

async function caughtUp(store: RedisFirst): Promise<void> {
  const deadline = performance.now() + catchUpMs;
  while ((await store.waiting()) > 0) {
    if (performance.now() > deadline) throw new Error('the consumer did not catch up');
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

const userPrefix = 'ü:"';
const early = 500;

/** A consumer that dies between its commit and the removal from Redis: the next one gets the same records again. */
async function storedButNotDropped(books: TestBooks, store: RedisFirst, id: string): Promise<void> {
  await Promise.all(people(early, userPrefix).map(async (user) => await store.grab(id, user)));
  const records = await store.records(early);
  const save = async (): Promise<number> =>
    await books.database.withTransaction('check.persist', async (tx) => await persist(tx, records));
  assert.equal(await save(), early);
  assert.equal(await save(), 0);
  assert.equal(await store.waiting(), early);
}

/** n shares, 3 n users, each of them twice; the consumer is killed again and again. */
async function checkOutcomes(books: TestBooks, redis: BenchRedis): Promise<void> {
  const store = await RedisFirst.open(redis.url);
  const shareCount = 4_000;
  const ids = await Promise.all([1, 2, 3].map(async () => await packetIn(books, store, shareCount)));
  await storedButNotDropped(books, store, ids[0] ?? '');
  let consumer = await startConsumer(books, redis);
  for (const id of ids) {
    const users = people(shareCount * 3, userPrefix);
    const first = await Promise.all(users.map(async (user) => await store.grab(id, user)));
    const again = await Promise.all(users.map(async (user) => await store.grab(id, user)));
    const granted = first.filter((result) => result.outcome === 'granted');
    // Of the first packet 500 shares were gone before.
    assert.equal(granted.length, id === ids[0] ? shareCount - early : shareCount);
    assert.equal(new Set(granted.map((result) => 'seq' in result && result.seq)).size, granted.length);
    assert.deepEqual(
      again,
      first.map((result) =>
        result.outcome === 'granted' ? { ...result, outcome: 'already_granted' } : result,
      ),
    );
    consumer.kill();
    await consumer.stop();
    consumer = await startConsumer(books, redis);
  }
  await caughtUp(store);
  await consumer.stop();
  const [counted] = await books.query<{ grabs: number; packets: number }>(
    `SELECT (SELECT COUNT(*) FROM grabs) AS \`grabs\`,
       (SELECT COUNT(*) FROM packets WHERE status = 'SOLD_OUT') AS packets`,
  );
  assert.deepEqual(counted, { grabs: 3 * shareCount, packets: 3 });
  await books.assertClean();
  await store.forget(ids);
  await store.close();
  console.log('Every share once, repeats tell the original, the books are clean after three crashes.');
}

async function trial(
  name: string,
  file: string,
  plan: Omit<LoadPlan, 'port' | 'connections' | 'warmupSeconds' | 'seconds' | 'mode' | 'users'>,
  others: Record<string, number | null>,
  env: Record<string, string> = {},
): Promise<void> {
  const server = await startProcess({ file, env: { PORT: '0', ...env } });
  let used: (() => Record<string, number | null>) | undefined;
  let cpu: Record<string, number | null> = {};
  const result = await runLoad(
    {
      port: Number(server.ready['port']),
      connections: 256,
      warmupSeconds: 1,
      seconds,
      mode: 'closed',
      users: { prefix: 'u' },
      samples: 1,
      ...plan,
    },
    {
      began: () => (used = measureCpu({ server: server.pid, ...others })),
      ended: () => (cpu = used?.() ?? {}),
    },
  );
  await server.stop();
  assert.equal(result.errors, 0);
  assert.deepEqual(Object.keys(result.byStatus), ['201']);
  const { perSecond, p50, p99, p999, max, cpuSeconds } = result;
  console.log(
    `${name}: ${Math.round(perSecond)}/s, ms p50 ${p50} p99 ${p99} p999 ${p999} max ${max}; ` +
      `CPU s ${JSON.stringify({ generator: cpuSeconds, ...cpu })}; ${JSON.stringify(result.samples[0]?.body)}`,
  );
}

async function trialOfPeer(
  books: TestBooks,
  redis: BenchRedis,
  {
    name,
    file,
    packets,
    env = {},
  }: { name: string; file: string; packets: number; env?: Record<string, string> },
): Promise<void> {
  const store = await RedisFirst.open(redis.url);
  const ids: string[] = [];
  for (let index = 0; index < packets; index += 1) ids.push(await packetIn(books, store, 400_000 / packets));
  const consumer = await startConsumer(books, redis);
  const others = { redis: redis.pid, consumer: consumer.pid, database: pidOfServer(books.adminUrl, 3306) };
  const paths = ids.map((id) => `/v1/packets/${id}/grabs`);
  const headers = { authorization: 'Bearer bench-key' };
  await trial(name, file, { paths, headers }, others, { REDIS_URL: redis.url, ...env });
  const behind = await store.waiting();
  const started = performance.now();
  await caughtUp(store);
  const caughtUpMs = Math.round(performance.now() - started);
  await consumer.stop();
  console.log(
    `  ${behind} grabs behind at the end, ${caughtUpMs} ms to catch up; ${JSON.stringify(consumer.said())}`,
  );
  await books.assertClean();
  await store.forget(ids);
  await store.close();
}

await mochaHooks.beforeAll.call(fake);
const books = await TestBooks.open();
try {
  for (const durability of ['as it comes', 'always'] as const) {
    const redis = await startRedis(durability);
    if (redis === null) continue;
    console.log(`redis ${redis.version}, ${durability}`);
    if (durability === 'as it comes') await checkOutcomes(books, redis);
    const peer = { name: 'express + redis', file: 'peers/express-peer.ts', packets: 1 };
    await trialOfPeer(books, redis, peer);
    await trialOfPeer(books, redis, { ...peer, name: 'express + redis, 400 packets', packets: 400 });
    const lane = { name: 'lane + redis', file: 'peers/lane-redis.ts', packets: 1 };
    await trialOfPeer(books, redis, { ...lane, env: { API_KEY: 'bench-key' } });
    await redis.stop();
    if (process.env['BENCH_SHORT'] === '1') break;
  }
  await trial('express, constant', 'peers/express-constant.ts', { paths: ['/v1/packets/x/grabs'] }, {});
  console.log('The books are clean.');
} finally {
  await books.close();
  await mochaHooks.afterAll.call(fake);
}
