import { Database } from '../../../src/database/database.ts';
import { persist } from './persist.ts';
import { RedisFirst } from './redis-first.ts';

/**
 * The peer's consumer: takes records from Redis in batches and stores each batch in one transaction. At least once:
 * a batch leaves Redis after its commit, and storing it again is harmless. One process, as the order of each packet's
 * records must be kept. DATABASE_URL, REDIS_URL; prints a JSON line when it is ready and then its state once in a
 * while, ends on SIGTERM after the batch under way.
 */
const batchSize = 1_000;
const restMs = 5;
const reportMs = 250;

const database = await Database.open(process.env['DATABASE_URL'] ?? '', { poolSize: 2, deadlineMs: 60_000 });
const store = await RedisFirst.open(process.env['REDIS_URL'] ?? '');
let stopping = false;
process.once('SIGTERM', () => (stopping = true));

const state = {
  /** Grabs that this process has stored. */
  persisted: 0,
  batches: 0,
  /** The age of the oldest grab of the last batch at its commit: what a crash of Redis would have lost. */
  lagMs: 0,
  maxLagMs: 0,
};
const report = (): void => void process.stdout.write(`${JSON.stringify(state)}\n`);
report();
const reporting = setInterval(report, reportMs);
while (!stopping) {
  const records = await store.records(batchSize);
  const [oldest] = records;
  if (oldest === undefined) {
    await new Promise((resolve) => setTimeout(resolve, restMs));
    continue;
  }
  state.persisted += await database.withTransaction(
    'redis_first.persist',
    async (tx) => await persist(tx, records),
  );
  state.batches += 1;
  state.lagMs = Date.now() - oldest.grabbedAt.getTime();
  state.maxLagMs = Math.max(state.maxLagMs, state.lagMs);
  await store.drop(records.length);
}
clearInterval(reporting);
report();
await store.close();
await database.close();
