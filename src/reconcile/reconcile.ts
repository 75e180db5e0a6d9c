import { readFile, readdir } from 'node:fs/promises';
import type { Db } from '../database/database.ts';
import { dbFolder } from '../database/migrate.ts';
import { statement } from '../database/statement.ts';

export interface RuleReport {
  /** The file's name without `.sql`, for example `07_packet_money`. */
  rule: string;
  /** What the file checks: the first line of its header. */
  checks: string;
  /** The offending rows; none on healthy books. */
  findings: Record<string, unknown>[];
  ms: number;
}

/** A rule reads whole tables: on millions of rows that takes longer than a request may. */
const ruleDeadlineMs = 600_000;

const folder = new URL('reconcile/', dbFolder);

/** The rules that `db/reconcile` holds, in order. */
export async function listRules(): Promise<string[]> {
  return (await readdir(folder))
    .filter((name) => name.endsWith('.sql'))
    .map((name) => name.slice(0, -4))
    .sort();
}

/** Runs every reconciliation file and tells what each found. `progress` hears of each as it is done. */
export async function reconcile(
  db: Db,
  progress: (report: RuleReport) => void = () => {},
): Promise<RuleReport[]> {
  const reports: RuleReport[] = [];
  for (const rule of await listRules()) {
    const text = await readFile(new URL(`${rule}.sql`, folder), 'utf8');
    const header = text.split('\n')[0] ?? '';
    const started = performance.now();
    const query = text
      .replaceAll(/^--.*$/gm, '')
      .trim()
      .replace(/;$/, '');
    const named = statement<Record<string, unknown>>(`reconcile.${rule}`, query);
    const findings = await db.rows(named, [], { deadlineMs: ruleDeadlineMs });
    const report = { rule, checks: header.replace(/^-- /, ''), findings, ms: performance.now() - started };
    progress(report);
    reports.push(report);
  }
  return reports;
}
