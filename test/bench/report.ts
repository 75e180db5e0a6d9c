import { table } from '../../src/console/output.ts';
import type { ResultRow, Spread } from './plot.ts';
import type { Run } from './run.ts';
import type { Scenario } from './scenarios.ts';
import type { Way } from './ways.ts';

/** A way in a scenario over all rounds. */
export interface Row extends ResultRow {
  retries: number | null;
  behind: number;
  maxLagMs: number;
  errors: number;
}

export function rowOf(scenario: Scenario, way: Way, engine: string, runs: readonly Run[]): Row {
  const names = [...new Set(runs.flatMap(({ cpuPerThousand }) => Object.keys(cpuPerThousand)))];
  const cpuOf = (name: string): number | null => {
    const values = runs.map(({ cpuPerThousand }) => cpuPerThousand[name] ?? null);
    return values.includes(null) ? null : medianOf(values as number[]);
  };
  return {
    group: scenario.name,
    way: way.name,
    engine,
    perSecond: spread(runs.map(({ perSecond }) => perSecond)),
    p50: spread(runs.map(({ p50 }) => p50)),
    p99: spread(runs.map(({ p99 }) => p99)),
    p999: spread(runs.map(({ p999 }) => p999)),
    cpu: Object.fromEntries(names.map((name) => [name, cpuOf(name)])),
    retries: runs.reduce<number | null>(
      (sum, { retries }) => (sum === null || retries === null ? null : sum + retries),
      0,
    ),
    behind: medianOf(runs.map(({ behind }) => behind)),
    maxLagMs: Math.max(...runs.map(({ maxLagMs }) => maxLagMs)),
    errors: runs.reduce((sum, { errors }) => sum + errors, 0),
  };
}

export function spread(values: readonly number[]): Spread {
  return {
    median: medianOf(values),
    lowest: Math.min(...values),
    highest: Math.max(...values),
  };
}

export function medianOf(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;
}

/** One table for each scenario. */
export function tables(rows: readonly Row[]): string {
  return [...new Set(rows.map(({ group }) => group))]
    .map((group) => {
      const own = rows.filter((row) => row.group === group);
      const base = own[0]?.perSecond.median ?? 0;
      return `${group}\n\n${table(
        [
          'way',
          'answers/s',
          'lowest–highest',
          'against the first',
          'p50 ms',
          'p99 ms',
          'p99.9 ms',
          'CPU s per 1,000: server',
          'database',
          'others',
          'retries',
          'behind at the end',
        ],
        own.map((row) => [
          row.way,
          Math.round(row.perSecond.median),
          `${Math.round(row.perSecond.lowest)}–${Math.round(row.perSecond.highest)}`,
          `${(row.perSecond.median / base).toFixed(2)} ×`,
          milliseconds(row.p50),
          milliseconds(row.p99),
          milliseconds(row.p999),
          row.cpu['server']?.toFixed(3) ?? '–',
          row.cpu['database']?.toFixed(3) ?? '–',
          othersOf(row.cpu),
          row.retries ?? '–',
          row.behind === 0 ? 0 : `${row.behind} (${(row.maxLagMs / 1000).toFixed(1)} s)`,
        ]),
      )}\n`;
    })
    .join('\n');
}

function othersOf(cpu: Record<string, number | null>): string {
  const others = Object.entries(cpu).filter(([name]) => name === 'redis' || name === 'consumer');
  if (others.length === 0) return '–';
  return others.map(([name, seconds]) => `${name} ${seconds?.toFixed(3) ?? '–'}`).join(', ');
}

function milliseconds(value: number | Spread): string {
  return (typeof value === 'number' ? value : value.median).toFixed(1);
}
