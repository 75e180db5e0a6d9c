import { mkdirSync, writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { join } from 'node:path';
import { mochaHooks } from '../support/engine.ts';
import { TestBooks } from '../support/service.ts';
import { bareTransactions } from './bare.ts';
import { plot } from './plot.ts';
import { pidOfServer } from './processes.ts';
import { startRedis } from './redis.ts';
import { rowOf, spread, tables, type Row } from './report.ts';
import { run, type Run } from './run.ts';
import { scenarios, type Scenario } from './scenarios.ts';
import { targets } from './targets.ts';
import type { Bench, Way } from './ways.ts';

/**
 * npm run bench: this service over HTTP beside its peers, in the same run, on the same machine and database server, whose
 * durability settings stay as they are. Each run has a server process of its own, fresh packets and new users, and 1.5 s of
 * warm-up. Tells medians of the rounds with their spread, and checks the books at the end. From the environment:
 * BENCH_ROUNDS, BENCH_SECONDS (of one run), BENCH_ONLY (a regular expression over "scenario: way"), BENCH_OUT (a folder for the
 * results as JSON and as a chart), BENCH_REDIS_URL, and where the database is as for the tests.
 */
const rounds = Number(process.env['BENCH_ROUNDS'] ?? 3);
const seconds = Number(process.env['BENCH_SECONDS'] ?? 4);
const only = new RegExp(process.env['BENCH_ONLY'] ?? '');
const out = process.env['BENCH_OUT'] ?? '';
const fake = { timeout: () => {} } as unknown as Mocha.Context;

interface Cell {
  scenario: Scenario;
  way: Way;
  runs: Run[];
}

const cells: Cell[] = scenarios.flatMap((scenario) =>
  scenario.ways
    .filter((way) => only.test(`${scenario.name}: ${way.name}`))
    .map((way) => ({ scenario, way, runs: [] })),
);
if (cells.length === 0) throw new Error('BENCH_ONLY matches nothing');

await mochaHooks.beforeAll.call(fake);
const books = await TestBooks.open();
const usesRedis = cells.some(({ way }) => way.name.startsWith('Redis'));
const redis = usesRedis
  ? { asItComes: await startRedis('as it comes'), always: await startRedis('always') }
  : { asItComes: null, always: null };
try {
  const bench: Bench = { books, databasePid: pidOfServer(books.adminUrl, 3306), redis };
  const header = await headerOf(bench);
  process.stdout.write(`${Object.values(header).join('; ')}\n`);
  const bare = await measure(bench);
  const engine = `${books.database.engine.name} ${books.database.engine.version}`;
  const rows = cells.map(({ scenario, way, runs }) => rowOf(scenario, way, engine, runs));
  process.stdout.write(`\n${tables(rows)}\n`);
  if (bare !== null)
    process.stdout.write(
      `A bare one-row transaction, 50/s: p50 ${bare.p50.median} ms, p99 ${bare.p99.median} ms\n`,
    );
  const reached = targets(rows, bare?.p99.median ?? null, books.database.engine.name === 'MySQL');
  process.stdout.write(`\n${reached.join('\n')}\n\n`);
  process.stderr.write('Checking the books …\n');
  await books.assertClean();
  process.stdout.write('The books are clean.\n');
  if (out !== '') save(header, rows, bare);
} finally {
  await redis.asItComes?.stop();
  await redis.always?.stop();
  await books.close();
  await mochaHooks.afterAll.call(fake);
}

/** All cells, round by round, so that what slows the machine for a while slows all of them. */
async function measure(bench: Bench) {
  const bare: { p50: number; p99: number }[] = [];
  for (let round = 1; round <= rounds; round += 1) {
    for (const { scenario, way, runs } of cells) {
      const result = await run(bench, scenario, way, seconds);
      runs.push(result);
      process.stderr.write(
        `round ${round}/${rounds}: ${scenario.name}: ${way.name}: ${Math.round(result.perSecond)}/s, p99 ${result.p99} ms\n`,
      );
      if (scenario.name.startsWith('idle')) bare.push(await bareTransactions(books.admin, 50, seconds));
    }
  }
  if (bare.length === 0) return null;
  return { p50: spread(bare.map(({ p50 }) => p50)), p99: spread(bare.map(({ p99 }) => p99)) };
}

async function headerOf({ redis: servers }: Bench): Promise<Record<string, string>> {
  const [settings] = await books.query<{ flush: number; binlog: number }>(
    'SELECT @@innodb_flush_log_at_trx_commit AS `flush`, IF(@@log_bin, @@sync_binlog, -1) AS binlog',
  );
  const { name, version } = books.database.engine;
  return {
    title: 'Grabs over HTTP',
    machine: `${cpus().length} × ${cpus()[0]?.model ?? 'cpu'}, load generator included`,
    node: `Node ${process.versions.node}`,
    database: `${name} ${version}, innodb_flush_log_at_trx_commit ${settings?.flush}, ${settings?.binlog === -1 ? 'no binary log' : `sync_binlog ${settings?.binlog}`}`,
    ...(servers.asItComes === null ? {} : { redis: `Redis ${servers.asItComes.version}` }),
    rounds: `${rounds} rounds of ${seconds} s`,
    date: new Date().toISOString().slice(0, 10),
  };
}

function save(header: Record<string, string>, rows: readonly Row[], bare: unknown): void {
  mkdirSync(out, { recursive: true });
  const file = join(out, books.database.engine.name.toLowerCase());
  writeFileSync(`${file}.json`, `${JSON.stringify({ header, rows, bareTransaction: bare }, null, 2)}\n`);
  const drawn = rows.filter(({ group }) => !group.includes('fixed times'));
  writeFileSync(`${file}.svg`, plot({ header, rows: drawn }));
  process.stdout.write(`Written: ${file}.json, ${file}.svg\n`);
}
