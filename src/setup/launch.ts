import { spawn } from 'node:child_process';
import { closeSync, openSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { replaceFile } from './files.ts';
import { pause, tail } from './process.ts';
import type { ServerBinary } from './server-binary.ts';
import { writeState, type ServerState } from './server-state.ts';
import { giveTo, type ServerUser } from './server-user.ts';

/** Recovery after a kill takes part of it. */
const startWaitMs = 90_000;
export const stopWaitMs = 30_000;

/** The longest path that a socket may have on Linux (107 bytes) and macOS (103). */
const socketPathBytes = 103;

/**
 * Starts the server program on the folder's data, with its durable defaults, and waits until `ready` says yes. It
 * outlives this process, so that a killed service costs no recovery. Throws with the end of its log, and with where
 * the log is, when it ends early or is not ready in 90 s.
 */
export async function launch(
  home: string,
  binary: ServerBinary,
  user: ServerUser,
  state: ServerState,
  ready: () => Promise<boolean>,
): Promise<number> {
  const data = join(home, 'data');
  writeInit(home, binary, user, state.password);
  giveTo(user, data);
  const logPath = join(home, 'server.log');
  const log = openSync(logPath, 'a', 0o600);
  const child = spawn(binary.server, options(home, binary, user, state), {
    stdio: ['ignore', log, log],
    detached: true,
    cwd: data,
  });
  closeSync(log);
  child.unref();
  let end: string | null = null;
  child.on('exit', (code, signal) => (end = `ended with ${signal ?? `exit code ${code}`}`));
  child.on('error', (error) => (end = `could not be run: ${error.message}`));
  const pid = child.pid ?? 0;
  writeState(home, { ...state, pid });
  const deadline = Date.now() + startWaitMs;
  while (!(await ready())) {
    if (end === null && Date.now() <= deadline) {
      await pause(100);
      continue;
    }
    if (end === null) child.kill('SIGKILL');
    throw new Error(
      `The database server ${end ?? `was not ready in ${startWaitMs / 1000} s`}. ` +
        `The end of its log, ${logPath}:\n${tail(readFileSync(logPath, 'utf8'))}`,
    );
  }
  return pid;
}

function options(home: string, binary: ServerBinary, user: ServerUser, { port }: ServerState): string[] {
  const data = join(home, 'data');
  const socket = join(data, 'server.sock');
  return [
    '--no-defaults',
    ...user.option,
    `--datadir=${data}`,
    `--port=${port}`,
    '--bind-address=127.0.0.1',
    // Logins are by address, so 127.0.0.1 must not be turned into a name.
    '--skip-name-resolve',
    `--socket=${Buffer.byteLength(socket) <= socketPathBytes ? socket : `/tmp/luckyledger-${port}.sock`}`,
    `--pid-file=${join(data, 'server.pid')}`,
    `--init-file=${join(home, 'init.sql')}`,
    '--max-connections=300',
    ...(binary.engine === 'mysql' ? ['--mysqlx=OFF', '--secure-file-priv=NULL'] : []),
  ];
}

/** Run by the server at each start, before it lets anyone in: the administrator's password is the one in the state. */
function writeInit(home: string, binary: ServerBinary, user: ServerUser, password: string): void {
  const secret = binary.engine === 'mysql' ? 'WITH caching_sha2_password BY' : 'BY';
  const path = join(home, 'init.sql');
  replaceFile(
    path,
    // MariaDB's initialiser makes an anonymous user, and root@127.0.0.1 without a password.
    `DROP USER IF EXISTS ''@'localhost';\n` +
      `CREATE USER IF NOT EXISTS 'root'@'127.0.0.1';\n` +
      `GRANT ALL ON *.* TO 'root'@'127.0.0.1' WITH GRANT OPTION;\n` +
      `ALTER USER 'root'@'127.0.0.1' IDENTIFIED ${secret} '${password}';\n` +
      `ALTER USER 'root'@'localhost' IDENTIFIED ${secret} '${password}';\n`,
  );
  giveTo(user, path);
}
