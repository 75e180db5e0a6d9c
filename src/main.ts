#!/usr/bin/env node
import { Command } from 'commander';
import { readConfig } from './config.ts';
import { demo } from './console/demo.ts';
import { keysCommand } from './console/keys.ts';
import { migrateCommand } from './console/migrate.ts';
import { proofCommand } from './console/proof.ts';
import { reconcileCommand } from './console/reconcile.ts';
import { serve } from './console/serve.ts';
import { FindingsError } from './console/output.ts';
import { Refusal } from './refusal.ts';
import { version } from './service.ts';

/** The command line: reads the environment once, wires, and turns failures into one clear line and an exit code. */
const program = new Command('luckyledger')
  .description('Shares that run out, handed out exactly: red packets on MySQL or MariaDB')
  .version(version)
  .showHelpAfterError();

program
  .command('serve')
  .description('serve the HTTP API; without DATABASE_URL, on a private database under .luckyledger/')
  .action(async () => await serve(readConfig(process.env)));

program
  .command('demo')
  .description(
    'a hundred users grab a packet of ten shares at once; shows who got what, and checks the books',
  )
  .action(async () => await demo(readConfig(process.env)));

program.addCommand(migrateCommand());
program.addCommand(keysCommand());
program.addCommand(proofCommand());
program.addCommand(reconcileCommand());

try {
  await program.parseAsync();
} catch (error) {
  if (error instanceof FindingsError) {
    process.exitCode = 1;
  } else {
    const detail =
      error instanceof Refusal
        ? [error.detail ?? error.code, ...error.faults.map((f) => `${f.path}: ${f.message}`)].join('\n  ')
        : null;
    process.stderr.write(`${detail ?? (error instanceof Error ? messageOf(error) : String(error))}\n`);
    process.exitCode = 2;
  }
}

/** A refused connection says where; the driver's own text for it is empty. */
function messageOf(error: Error): string {
  const { code, address, port } = error as { code?: unknown; address?: unknown; port?: unknown };
  if (code === 'ECONNREFUSED') {
    return `The database does not answer at ${String(address)}:${String(port)}. Is it running? See DATABASE_URL.`;
  }
  if (code === 'EADDRINUSE') {
    return `Something listens on ${String(address)}:${String(port)} already: this service, perhaps? Choose another with PORT.`;
  }
  return error.message === '' ? String(code) : error.message;
}
