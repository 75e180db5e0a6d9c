import { runLoad, type LoadResult } from './load.ts';
import { measureCpu } from './processes.ts';
import type { Scenario } from './scenarios.ts';
import { apiKey, type Bench, type Owed, type Served, type Way } from './ways.ts';

/** Long enough for the compiler of JavaScript to have done its work: before, the same code answers a third less. */
const warmupSeconds = 3;
let runs = 0;

/** What one run of a way saw. */
export interface Run extends LoadResult, Owed {
  /** CPU seconds for 1,000 answers, by process. */
  cpuPerThousand: Record<string, number | null>;
  /** Transactions that ran again, after a deadlock or the like. */
  retries: number | null;
}

/** Serves a scenario by one way, loads it, and ends it. Throws when an answer was not what it must be. */
export async function run(bench: Bench, scenario: Scenario, way: Way, seconds: number): Promise<Run> {
  const { packetIds, paths } = await scenario.prepare(bench.books, seconds + warmupSeconds);
  const served = await way.serve(bench, packetIds);
  runs += 1;
  if (scenario.soldOut === true) await takeAll(served.port, paths[0] ?? '');
  let used: () => Record<string, number | null> = () => ({});
  let cpu: Record<string, number | null> = {};
  const result = await runLoad(
    {
      port: served.port,
      connections: scenario.connections,
      warmupSeconds,
      seconds,
      mode: scenario.mode,
      paths,
      users: { prefix: `run-${runs}-` },
      body: '{"userId":"{user}"}',
      headers: { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' },
      samples: 1,
    },
    { began: () => (used = measureCpu(served.pids)), ended: () => (cpu = used()) },
  );
  const retries = await retriesOf(served);
  const owed = await served.finish();
  assertAnswers(scenario, way, result);
  const thousands = (result.perSecond * result.seconds) / 1_000;
  const perThousand = (seconds: number | null): number | null =>
    seconds === null ? null : Number((seconds / thousands).toFixed(4));
  return {
    ...result,
    ...owed,
    retries,
    cpuPerThousand: Object.fromEntries(
      Object.entries({ ...cpu, generator: result.cpuSeconds }).map(([name, used]) => [
        name,
        perThousand(used),
      ]),
    ),
  };
}

function assertAnswers(scenario: Scenario, way: Way, result: LoadResult): void {
  const constant = !way.grabs && scenario.status === 410 ? 201 : scenario.status;
  const statuses = Object.keys(result.byStatus);
  if (result.errors === 0 && statuses.length === 1 && statuses[0] === String(constant)) return;
  throw new Error(
    `${way.name}, ${scenario.name}: ${JSON.stringify(result.byStatus)}, ${result.errors} errors ${JSON.stringify(result.errorCodes)}; ${JSON.stringify(result.samples[0])}`,
  );
}

/** Grabs all shares, and one more, so that the server knows. */
async function takeAll(port: number, path: string): Promise<void> {
  const grab = async (user: string): Promise<number> => {
    const response = await fetch(`http://127.0.0.1:${port}${path}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' },
      body: JSON.stringify({ userId: user }),
    });
    await response.text();
    return response.status;
  };
  for (let user = 0; ; user += 100) {
    const statuses = await Promise.all(
      Array.from({ length: 100 }, async (_, index) => await grab(`early-${user + index}`)),
    );
    if (statuses.includes(410)) return;
    if (statuses.some((status) => status !== 201)) throw new Error(`a grab was answered ${statuses.join()}`);
  }
}

/** As the server's own metrics tell; null where it has none. */
async function retriesOf({ port }: Served): Promise<number | null> {
  const response = await fetch(`http://127.0.0.1:${port}/metrics`);
  const text = await response.text();
  if (!response.ok) return null;
  return [...text.matchAll(/^luckyledger_transaction_retries_total\{.*\} (\d+)$/gm)].reduce(
    (sum, [, count]) => sum + Number(count),
    0,
  );
}
