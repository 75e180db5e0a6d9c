import { cpus } from 'node:os';
import { table } from '../../src/console/output.ts';
import { mochaHooks } from '../support/engine.ts';
import { TestBooks } from '../support/service.ts';
import { grabOneByOne } from './one-by-one.ts';

/**
 * npm run bench: the grab engine in process against one transaction per grab, on the same server and tables, in
 * the same run; closed loop, durable settings as the server has them. Prints medians of the rounds with their
 * spread, and checks the books at the end.
 */
const rounds = Number(process.env['BENCH_ROUNDS'] ?? 3);
const seconds = Number(process.env['BENCH_SECONDS'] ?? 4);
const waiting = [64, 256];
const fake = { timeout: () => {} } as unknown as Mocha.Context;
let nextUser = 0;
let nextSender = 0;

/** Keeps `width` grabs waiting for `forMs`; returns grabs per second. */
async function load(width: number, forMs: number, grab: (user: string) => Promise<boolean>): Promise<number> {
  let done = 0;
  const started = performance.now();
  const until = started + forMs;
  const person = async (): Promise<void> => {
    while (performance.now() < until) {
      nextUser += 1;
      if (!(await grab(`u${nextUser}`))) throw new Error('the packet was too small for the benchmark');
      done += 1;
    }
  };
  await Promise.all(Array.from({ length: width }, person));
  return (done / (performance.now() - started)) * 1000;
}

async function packets(books: TestBooks, count: number, shareCount: number): Promise<string[]> {
  const ids: string[] = [];
  for (let index = 0; index < count; index += 1) {
    nextSender += 1;
    const senderId = `sender-${nextSender}`;
    await books.fund(senderId, shareCount * 100);
    ids.push(await books.packet({ senderId, totalAmount: shareCount * 100, shareCount }));
  }
  return ids;
}

interface Way {
  name: string;
  width: number;
  run: (forMs: number) => Promise<number>;
}

async function waysOf(books: TestBooks): Promise<Way[]> {
  const peer = await books.another({ poolSize: 64, deadlineMs: 60_000, attempts: 50, queueWaitMs: 60_000 });
  const wide = await books.another({ poolSize: Number(process.env['BENCH_POOL'] ?? 16) });
  const desk = books.desk(wide, { keysInFlight: Number(process.env['BENCH_KEYS'] ?? 8) });
  const [hot = '', hotPeer = '', large = ''] = [
    ...(await packets(books, 1, 600_000)),
    ...(await packets(books, 1, 100_000)),
    ...(await packets(books, 1, 1_000_000)),
  ];
  const many = await packets(books, 200, 3_000);
  const byDesk = (idOf: () => string) => async (user: string) =>
    (await desk.grab(idOf(), user)).outcome === 'granted';
  let turn = 0;
  const anyOfMany = (): string => many[(turn += 1) % many.length] ?? '';
  return [
    {
      name: 'one transaction per grab, SKIP LOCKED, hot packet',
      width: 64,
      run: async (ms) => await load(64, ms, async (user) => await grabOneByOne(peer, hotPeer, user)),
    },
    ...waiting.map((width) => ({
      name: 'group commit, hot packet',
      width,
      run: async (ms: number) =>
        await load(
          width,
          ms,
          byDesk(() => hot),
        ),
    })),
    {
      name: 'group commit, hot packet of 1,000,000 shares',
      width: 256,
      run: async (ms) =>
        await load(
          256,
          ms,
          byDesk(() => large),
        ),
    },
    {
      name: 'group commit, 200 packets at once',
      width: 256,
      run: async (ms) => await load(256, ms, byDesk(anyOfMany)),
    },
  ];
}

function median(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;
}

await mochaHooks.beforeAll.call(fake);
const books = await TestBooks.open();
try {
  const [settings] = await books.query<{ flush: number; binlog: number }>(
    'SELECT @@innodb_flush_log_at_trx_commit AS `flush`, IF(@@log_bin, @@sync_binlog, -1) AS binlog',
  );
  process.stdout.write(
    `${cpus().length} × ${cpus()[0]?.model ?? 'cpu'}, Node ${process.versions.node}; ${books.database.engine.name} ${books.database.engine.version}; ` +
      `innodb_flush_log_at_trx_commit=${settings?.flush}, ${settings?.binlog === -1 ? 'no binary log' : `sync_binlog=${settings?.binlog}`}; ` +
      `${rounds} rounds of ${seconds} s\nPreparing packets …\n`,
  );
  const only = process.env['BENCH_ONLY'] ?? '';
  const ways = (await waysOf(books)).filter(({ name, width }) => `${name} ${width}`.includes(only));
  const results = new Map<Way, number[]>(ways.map((way) => [way, []]));
  for (const way of ways) await way.run(1_000);
  for (let round = 1; round <= rounds; round += 1) {
    for (const way of ways) {
      const cpu = process.cpuUsage();
      const speed = await way.run(seconds * 1000);
      results.get(way)?.push(speed);
      const { user, system } = process.cpuUsage(cpu);
      process.stderr.write(
        `round ${round}: ${way.name}, ${way.width} waiting: ${Math.round(speed)}/s, ${Math.round((user + system) / speed / seconds)} µs of CPU here for each\n`,
      );
    }
  }
  const base = median(results.get(ways[0] as Way) ?? []);
  process.stdout.write(
    `\n${table(
      ['way', 'waiting', 'grabs/s (median)', 'lowest', 'highest', 'ratio'],
      ways.map((way) => {
        const speeds = results.get(way) ?? [];
        return [
          way.name,
          way.width,
          Math.round(median(speeds)),
          Math.round(Math.min(...speeds)),
          Math.round(Math.max(...speeds)),
          `${(median(speeds) / base).toFixed(1)} ×`,
        ];
      }),
    )}\n\n`,
  );
  const slowest = (await books.assertClean()).sort((a, b) => b.ms - a.ms).slice(0, 3);
  process.stderr.write(
    `slowest rules: ${slowest.map(({ rule, ms }) => `${rule} ${Math.round(ms)} ms`).join(', ')}\n`,
  );
  process.stdout.write('The books are clean.\n');
} finally {
  await books.close();
  await mochaHooks.afterAll.call(fake);
}
