import { sharesAfter } from '../../src/packet/sql.ts';
import type { TestBooks } from '../support/service.ts';
import { RedisFirst } from './peers/redis-first.ts';
import { startProcess, type BenchProcess } from './processes.ts';
import type { BenchRedis } from './redis.ts';

/** What every server of the benchmark is given and asked. */
export const apiKey = 'the key of the benchmark';
const catchUpMs = 300_000;
const sharesPerRead = 50_000;

export interface Bench {
  books: TestBooks;
  databasePid: number | null;
  redis: { asItComes: BenchRedis | null; always: BenchRedis | null };
}

/** One way to serve grabs, started for one run. */
export interface Served {
  port: number;
  /** Whose CPU time is told, by name. */
  pids: Record<string, number | null>;
  /** Ends it, after all that it owes the database is there. */
  finish: () => Promise<Owed>;
}

export interface Owed {
  /** Grabs that were answered and not in the database when the load ended, and how old the oldest got, in ms. */
  behind: number;
  maxLagMs: number;
}

export interface Way {
  name: string;
  /** Whether its grabs end up in the books; the constants have none. */
  grabs: boolean;
  serve: (bench: Bench, packetIds: readonly string[]) => Promise<Served>;
}

const nothingOwed: Owed = { behind: 0, maxLagMs: 0 };

export const service: Way = {
  name: 'Luckyledger',
  grabs: true,
  serve: async ({ books, databasePid }) =>
    served(await startProcess({ file: 'service.ts', env: { API_KEY: apiKey, DATABASE_URL: books.url } }), {
      database: databasePid,
    }),
};

export const oneByOne: Way = {
  name: 'one transaction per grab, SKIP LOCKED, fast lane',
  grabs: true,
  serve: async ({ books, databasePid }) =>
    served(
      await startProcess({
        file: 'peers/lane-one-by-one.ts',
        env: { API_KEY: apiKey, DATABASE_URL: books.url },
      }),
      { database: databasePid },
    ),
};

export const expressConstant: Way = {
  name: 'express, constant answer',
  grabs: false,
  serve: async () => served(await startProcess({ file: 'peers/express-constant.ts' }), {}),
};

export const laneConstant: Way = {
  name: 'fast lane, constant answer',
  grabs: false,
  serve: async () =>
    served(await startProcess({ file: 'peers/lane-constant.ts', env: { API_KEY: apiKey } }), {}),
};

export const redisOnExpress = redisFirst('Redis first, express', 'peers/express-peer.ts', 'asItComes');
export const redisOnExpressAlways = redisFirst(
  'Redis first, express, appendfsync always',
  'peers/express-peer.ts',
  'always',
);
export const redisOnLane = redisFirst('Redis first, fast lane', 'peers/lane-redis.ts', 'asItComes');
export const redisOnLaneAlways = redisFirst(
  'Redis first, fast lane, appendfsync always',
  'peers/lane-redis.ts',
  'always',
);

function redisFirst(name: string, file: string, durability: keyof Bench['redis']): Way {
  return {
    name,
    grabs: true,
    serve: async ({ books, databasePid, redis: servers }, packetIds) => {
      const redis = servers[durability];
      if (redis === null) throw new Error(`${name}: there is no Redis with these settings`);
      const store = await RedisFirst.open(redis.url);
      for (const id of packetIds) await loadPacket(books, store, id);
      const consumer = await startProcess({
        file: 'peers/consumer.ts',
        env: { DATABASE_URL: books.url, REDIS_URL: redis.url },
      });
      const server = await startProcess({ file, env: { API_KEY: apiKey, REDIS_URL: redis.url } });
      const pids = { database: databasePid, redis: redis.pid, consumer: consumer.pid };
      return served(server, pids, async () => {
        const behind = await store.waiting();
        await caughtUp(store);
        await consumer.stop();
        await store.forget(packetIds);
        await store.close();
        return { behind, maxLagMs: Number(consumer.said()['maxLagMs'] ?? 0) };
      });
    },
  };
}

function served(
  server: BenchProcess,
  pids: Record<string, number | null>,
  settle: () => Promise<Owed> = async () => await Promise.resolve(nothingOwed),
): Served {
  return {
    port: Number(server.ready['port']),
    pids: { server: server.pid, ...pids },
    finish: async () => {
      await server.stop();
      return await settle();
    },
  };
}

async function loadPacket(books: TestBooks, store: RedisFirst, id: string): Promise<void> {
  for (let seq = 0; ;) {
    const shares = await books.database.rows(sharesAfter, [id, seq, sharesPerRead]);
    const last = shares.at(-1);
    if (last === undefined) return;
    await store.load(id, shares);
    seq = last.seq;
  }
}

async function caughtUp(store: RedisFirst): Promise<void> {
  const deadline = performance.now() + catchUpMs;
  while ((await store.waiting()) > 0) {
    if (performance.now() > deadline) throw new Error('the consumer did not catch up');
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
