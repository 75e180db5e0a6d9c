// npm test: installs what is missing and runs the suite; arguments are files or mocha's options.
import { spawn } from 'node:child_process';
import { ensureDependencies, root } from '../src/dependencies.mjs';

ensureDependencies();
const args = process.argv.slice(2);
const files = args.filter((arg) => arg.endsWith('.ts'));
const options = args.filter((arg) => !arg.endsWith('.ts'));
const child = spawn(
  process.execPath,
  [
    '--import',
    'tsx',
    `${root}node_modules/mocha/bin/mocha.js`,
    '--require',
    './test/support/engine.ts',
    '--reporter',
    './test/support/reporter.mjs',
    '--timeout',
    '60000',
    '--exit',
    '--forbid-only',
    '--forbid-pending',
    ...options,
    ...(files.length > 0 ? files : ['test/**/*.test.ts']),
  ],
  // No container of ours outlives the run: the suite stops it, so the extra reaper container is not needed.
  { cwd: root, stdio: 'inherit', env: { TESTCONTAINERS_RYUK_DISABLED: 'true', ...process.env } },
);
for (const signal of /** @type {const} */ (['SIGINT', 'SIGTERM']))
  process.on(signal, () => child.kill(signal));
child.on('exit', (code) => process.exit(code ?? 1));
