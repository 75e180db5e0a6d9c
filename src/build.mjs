import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { root } from './dependencies.mjs';

/** Node's options for a process that serves: its young objects live for a transaction, and would else be copied again and again. */
export const nodeOptions = ['--max-semi-space-size=64'];

const stampName = '.built';

/** Compiles `src` to `dist` when it is missing or older. Compiled once, the service starts sooner and runs faster than from its sources. */
export function ensureBuilt() {
  const stamp = `${root}dist/${stampName}`;
  if (existsSync(stamp) && statSync(stamp).mtimeMs >= newestIn(`${root}src`)) return;
  console.error('Compiling: tsc -p src');
  const work = `${root}.luckyledger/build-${process.pid}`;
  compile('src', work);
  const old = `${root}.luckyledger/old-${process.pid}`;
  try {
    if (existsSync(`${root}dist`)) renameSync(`${root}dist`, old);
    renameSync(work, `${root}dist`);
  } catch (error) {
    // Another start at the same time has put its own result in place, which is as good.
    if (!existsSync(stamp)) throw error;
  }
  for (const folder of [work, old]) rmSync(folder, { recursive: true, force: true });
}

/**
 * Compiles a project into a folder, with a stamp from before the compilation.
 * @param {string} project
 * @param {string} folder
 */
export function compile(project, folder) {
  const stamp = new Date();
  mkdirSync(folder, { recursive: true });
  const { status, error } = spawnSync(
    process.execPath,
    [`${root}node_modules/typescript/bin/tsc`, '-p', project, '--outDir', folder],
    { cwd: root, stdio: ['ignore', 'inherit', 'inherit'] },
  );
  if (status !== 0) {
    console.error(error === undefined ? 'The sources do not compile.' : `tsc: ${error.message}`);
    process.exit(status ?? 1);
  }
  writeFileSync(join(folder, stampName), stamp.toISOString());
}

/**
 * The time of the latest change below a folder, in ms.
 * @param {string} folder
 * @returns {number}
 */
function newestIn(folder) {
  return Math.max(
    statSync(folder).mtimeMs,
    ...readdirSync(folder, { withFileTypes: true }).map((entry) =>
      entry.isDirectory() ? newestIn(join(folder, entry.name)) : statSync(join(folder, entry.name)).mtimeMs,
    ),
  );
}
