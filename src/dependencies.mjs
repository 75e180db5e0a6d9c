import { spawnSync } from 'node:child_process';
import { existsSync, lstatSync, statSync, utimesSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

export const root = fileURLToPath(new URL('../', import.meta.url));

/** Installs the dependencies when they are missing or older than the lock file. Plain JavaScript: it runs before they exist. */
export function ensureDependencies() {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
  if (major < 20 || (major === 20 && minor < 19)) {
    console.error(`Luckyledger needs Node.js 20.19 or later; this is ${process.versions.node}.`);
    process.exit(1);
  }
  // npm writes this stamp when it has installed everything.
  const stamp = `${root}node_modules/.package-lock.json`;
  if (existsSync(stamp) && statSync(stamp).mtimeMs >= statSync(`${root}package-lock.json`).mtimeMs) return;
  // npm ci would empty the folder behind a link, which is somebody else's.
  if (lstatSync(`${root}node_modules`, { throwIfNoEntry: false })?.isSymbolicLink() === true) return;
  console.error('Installing dependencies: npm ci');
  // NODE_ENV=production would leave out tsx, which runs the sources.
  const { status, error } = spawnSync(
    'npm',
    ['ci', '--include=dev', '--no-progress', '--no-audit', '--no-fund', '--loglevel=error'],
    { cwd: root, stdio: ['ignore', 'ignore', 'inherit'], shell: process.platform === 'win32' },
  );
  if (status !== 0) {
    console.error(
      error === undefined ? 'npm ci failed. Is the npm registry reachable?' : `npm ci: ${error.message}`,
    );
    process.exit(status ?? 1);
  }
  // The stamp's time must be newer than the lock file's, whatever times a checkout or npm gave to them.
  if (existsSync(stamp)) utimesSync(stamp, new Date(), new Date());
}
