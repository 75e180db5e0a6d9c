import { Command } from 'commander';
import { reconcile, type RuleReport } from '../reconcile/reconcile.ts';
import { withDatabase } from './database.ts';
import { FindingsError, print, say, table } from './output.ts';

export function reconcileCommand(): Command {
  return new Command('reconcile')
    .description('run every file of db/reconcile; exit code 1 if one finds anything, 2 on failure')
    .option('--json', 'print JSON')
    .action(async ({ json }: { json?: boolean }) => {
      const showProgress = process.stderr.isTTY && json !== true;
      const reports = await withDatabase(
        async (database) => await reconcile(database, ({ rule }) => showProgress && say(`checked ${rule}`)),
      );
      show(reports, json === true ? JSON.stringify(reports) : reportTable(reports));
    });
}

/** Prints a report of the books, as text; findings end the program with exit code 1. */
export function show(reports: readonly RuleReport[], text = reportTable(reports)): void {
  print(text);
  if (reports.some(({ findings }) => findings.length > 0)) throw new FindingsError();
}

/** One line a rule, then the first rows of what was found. */
function reportTable(reports: readonly RuleReport[]): string {
  const summary = table(
    ['rule', 'findings', 'ms'],
    reports.map(({ rule, findings, ms }) => [rule, findings.length, Math.round(ms)]),
  );
  const details = reports
    .filter(({ findings }) => findings.length > 0)
    .map(({ rule, checks, findings }) => {
      const rows = findings.slice(0, 10).map((row) => `  ${JSON.stringify(row)}`);
      return [
        `\n${rule}: ${checks}`,
        ...rows,
        ...(findings.length > 10 ? [`  … ${findings.length - 10} more`] : []),
      ].join('\n');
    });
  const found = reports.reduce((sum, { findings }) => sum + findings.length, 0);
  const verdict =
    found === 0
      ? `\nThe books are clean: ${reports.length} rules, no finding.`
      : `\n${found} findings. The head of each file in db/reconcile says what a finding means and what to do.`;
  return [summary, ...details, verdict].join('\n');
}
