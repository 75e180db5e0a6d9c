import { existsSync, mkdirSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { ServerBinary } from './server-binary.ts';
import { giveTo, type ServerUser } from './server-user.ts';
import { run, tail } from './process.ts';

const makeWaitMs = 180_000;
const draftPrefix = 'data.new';

/**
 * Makes the server's data folder, if there is none: aside, and renamed when it is whole, so that what a killed start
 * leaves is never taken for data. Throws with what the server's program said.
 */
export async function makeDataFolder(
  home: string,
  binary: ServerBinary,
  user: ServerUser,
  say: (line: string) => void,
): Promise<void> {
  const data = join(home, 'data');
  if (existsSync(data)) return;
  for (const name of readdirSync(home).filter((name) => name.startsWith(draftPrefix)))
    rmSync(join(home, name), { recursive: true, force: true });
  say(`Making a data folder for ${binary.engine} ${binary.version}`);
  const draft = join(home, draftPrefix);
  mkdirSync(draft, { mode: 0o750 });
  giveTo(user, draft);
  const [program, args] = initialiser(binary, user, draft);
  const made = await run(program, args, { timeoutMs: makeWaitMs });
  if (made.status !== 0) {
    rmSync(draft, { recursive: true, force: true });
    throw new Error(`${program} could not make a data folder:\n${tail(`${made.stdout}\n${made.stderr}`)}`);
  }
  renameSync(draft, data);
}

function initialiser(binary: ServerBinary, user: ServerUser, draft: string): [string, string[]] {
  // --no-defaults has to come first.
  if (binary.installer === null)
    return [binary.server, ['--no-defaults', '--initialize-insecure', ...user.option, `--datadir=${draft}`]];
  const quiet = [
    '--force',
    '--skip-name-resolve',
    '--skip-test-db',
    '--auth-root-authentication-method=normal',
  ];
  return [binary.installer, ['--no-defaults', ...user.option, `--datadir=${draft}`, ...quiet]];
}
