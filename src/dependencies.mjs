import { spawnSync } from 'node:child_process';
import { existsSync, statSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

export const root = fileURLToPath(new URL('../', import.meta.url));

/** Installs the dependencies when they are missing or older than the lock file. Plain JavaScript: it runs before they exist. */
export function ensureDependencies() {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
  if (major < 20 || (major === 20 && minor < 19)) {
    console.error(`Luckyledger needs Node.js 20.19 or later; this is ${process.versions.node}.`);
    process.exit(1);
  }
  const installed = `${root}node_modules/.package-lock.json`;
  if (existsSync(installed) && statSync(installed).mtimeMs >= statSync(`${root}package-lock.json`).mtimeMs)
    return;
  console.error('Installing dependencies: npm ci');
  const { status } = spawnSync('npm', ['ci', '--no-progress', '--loglevel=error'], {
    cwd: root,
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  if (status !== 0) {
    console.error('npm ci failed. Is the npm registry reachable?');
    process.exit(status ?? 1);
  }
  if (existsSync(installed)) {
    // npm keeps the stamp of an unchanged tree; ours must be newer than the lock file.
    spawnSync('touch', [installed]);
  }
}
