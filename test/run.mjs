// npm test: installs what is missing, runs the suite in one process and counts. Arguments are test files, patterns or
// folders, and options of mocha: npm test -- test/split --grep equal
import { spawn } from 'node:child_process';
import { existsSync, statSync } from 'node:fs';
import { ensureBuilt } from '../src/build.mjs';
import { ensureDependencies, root } from '../src/dependencies.mjs';

ensureDependencies();
// Tests of several processes run the compiled command line.
ensureBuilt();
/** @type {string[]} */
const files = [];
/** @type {string[]} */
const options = [];
for (const arg of process.argv.slice(2)) {
  if (arg.endsWith('.ts')) files.push(arg);
  else if (existsSync(root + arg) && statSync(root + arg).isDirectory())
    files.push(`${arg.replace(/\/+$/, '')}/**/*.test.ts`);
  else options.push(arg);
}
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
    '--fail-zero',
    '--forbid-only',
    '--forbid-pending',
    '--ignore',
    'test/bench/**',
    ...options,
    ...(files.length > 0 ? files : ['test/**/*.test.ts']),
  ],
  {
    cwd: root,
    stdio: ['inherit', 'inherit', 'inherit', 'ipc'],
    // The suite ends its own container, however it ends; an extra one to reap it would need another image.
    env: { TESTCONTAINERS_RYUK_DISABLED: 'true', ...process.env },
  },
);
// The run ends its server at SIGTERM; mocha alone would wait for the running test.
for (const signal of /** @type {const} */ (['SIGINT', 'SIGTERM', 'SIGHUP']))
  process.on(signal, () => child.kill('SIGTERM'));

/** @type {{ passed: number, failed: number } | null} */
let counted = null;
child.on('message', (counts) => {
  counted = /** @type {{ passed: number, failed: number }} */ (counts);
});
child.on('exit', (code) => {
  const { passed, failed } = counted ?? { passed: 0, failed: 0 };
  // No count, nothing run, or a bad end after a good count: each is a failure, and shows as one.
  const unsound = counted === null || passed + failed === 0 || code !== 0;
  if (counted === null) console.error('The run ended before its tests did.');
  else if (passed + failed === 0) console.error('No test ran.');
  const failures = failed === 0 && unsound ? 1 : failed;
  const label = process.env['TEST_LABEL'] ?? '';
  console.log(
    label === '' ? `${passed} passed, ${failures} failed` : `[${label}] passed=${passed} failed=${failures}`,
  );
  process.exit(failures === 0 ? 0 : 1);
});
