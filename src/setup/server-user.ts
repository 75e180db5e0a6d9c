import { spawnSync } from 'node:child_process';
import { statSync } from 'node:fs';

/**
 * Which user the private server runs as. A server refuses to run as root unless told to, and should not: `mysql` is
 * what its package made. But a clone under a closed home folder is out of that user's reach; then the server runs as
 * root, who owns the folder. Anyone but root runs it as themselves.
 */
export interface ServerUser {
  name: 'mysql' | 'root';
  /** The server's option; nothing when there is no choice. */
  option: string[];
}

export function serverUser(home: string): ServerUser {
  if (process.getuid?.() !== 0) return { name: 'mysql', option: [] };
  const name = canReach(home) ? 'mysql' : 'root';
  return { name, option: [`--user=${name}`] };
}

/** Gives a file or folder to the server's user, with all in it: that user may be another than at the last start. */
export function giveTo(user: ServerUser, path: string): void {
  if (user.option.length === 0) return;
  const given = spawnSync('chown', ['-R', `${user.name}:`, path], { encoding: 'utf8' });
  if (given.status !== 0)
    throw new Error(`${path} could not be given to ${user.name}: ${given.stderr.trim()}`);
}

/** Throws when the data are somebody else's: a server without the right to its files says so only in riddles. */
export function assertOwn(path: string): void {
  const uid = process.getuid?.();
  if (uid === undefined || uid === 0) return;
  const owner = statSync(path).uid;
  if (owner === uid) return;
  throw new Error(
    `The data in ${path} belong to another user of this machine (number ${owner}). ` +
      `Start as that user, or move the folder away to begin with an empty database.`,
  );
}

function canReach(home: string): boolean {
  const [uid, gid] = ['-u', '-g'].map((option) => spawnSync('id', [option, 'mysql'], { encoding: 'utf8' }));
  if (uid?.status !== 0 || gid?.status !== 0) return false;
  const ids = { uid: Number(uid.stdout), gid: Number(gid.stdout) };
  return spawnSync('test', ['-x', home], ids).status === 0;
}
