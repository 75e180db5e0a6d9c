import { randomBytes } from 'node:crypto';
import { renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { createFile, hasCode, readIfThere } from './files.ts';
import { isAlive, pause, self, type ProcessId } from './process.ts';

/** Longer than making and starting a server may take. */
const waitMs = 300_000;
const sayAfterMs = 1_000;

/**
 * Runs `work` while no other process, and no other call in this one, does so for the same folder: two starts at once
 * must not make two servers. A holder that died is passed over. Throws when a living one holds on for five minutes.
 */
export async function withLock<T>(
  home: string,
  say: (line: string) => void,
  work: () => Promise<T>,
): Promise<T> {
  const path = join(home, 'lock');
  // The last part makes two calls of one process differ.
  const mine = JSON.stringify({ ...self(), call: randomBytes(4).toString('hex') });
  const begun = Date.now();
  let said = false;
  while (!createFile(path, mine)) {
    const held = readIfThere(path);
    if (held === null) continue;
    const holder = JSON.parse(held) as ProcessId;
    if (!isAlive(holder)) {
      passOver(path, held);
      continue;
    }
    if (Date.now() - begun > waitMs)
      throw new Error(
        `Process ${holder.pid} has been starting or stopping the database in ${home} for too long.`,
      );
    if (!said && Date.now() - begun > sayAfterMs) {
      said = true;
      say(`Waiting for process ${holder.pid}, which is starting or stopping the database`);
    }
    await pause(50);
  }
  try {
    return await work();
  } finally {
    if (readIfThere(path) === mine) rmSync(path, { force: true });
  }
}

/** Takes a dead holder's file away; if somebody else did so first and holds the lock now, that one is put back. */
function passOver(path: string, dead: string): void {
  const aside = `${path}.${randomBytes(4).toString('hex')}`;
  try {
    renameSync(path, aside);
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return;
    throw error;
  }
  const taken = readIfThere(aside);
  if (taken !== null && taken !== dead) createFile(path, taken);
  rmSync(aside, { force: true });
}
