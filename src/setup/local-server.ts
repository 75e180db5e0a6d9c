import { mkdirSync, realpathSync, rmSync } from 'node:fs';
import { join, resolve } from 'node:path';
import mysql from 'mysql2/promise';
import { makeDataFolder } from './data-folder.ts';
import { readIfThere } from './files.ts';
import { launch, stopWaitMs } from './launch.ts';
import { withLock } from './lock.ts';
import { hasArgument, pause } from './process.ts';
import { findServer, type FindServer, type ServerBinary } from './server-binary.ts';
import {
  freePort,
  holdsServerData,
  newState,
  readState,
  writeState,
  type ServerState,
} from './server-state.ts';
import { assertOwn, serverUser } from './server-user.ts';
import { Users } from './users.ts';

export interface ProvidedDatabase {
  /** Of the administrator, without a database's name. */
  adminUrl: string;
  kind: 'local' | 'container';
  engine: ServerBinary['engine'];
  /** For people: what it is and where it runs. */
  description: string;
  /** Ends the use of the server, and the server itself if nobody else uses it; its data stay. */
  stop: () => Promise<void>;
}

type Say = (line: string) => void;

interface Running {
  /** Null where this machine does not show us the process; then its user cannot end it either. */
  pid: number | null;
  state: ServerState;
}

/**
 * A private server with its data under `folder`: made if missing, started if it does not run, and shared if it does;
 * the last user to leave ends it. One that was killed, or whose users were, recovers at the next start. The data stay
 * with the engine that made them: when `binary` is another, the right one is looked for. Throws with what to do when
 * there is none, and with the end of the server's log when it does not come up.
 */
export async function privateServer(
  folder: string,
  binary: ServerBinary,
  say: Say,
  find: FindServer = findServer,
): Promise<ProvidedDatabase> {
  const home = resolve(folder);
  mkdirSync(home, { recursive: true, mode: 0o755 });
  return await withLock(home, say, async () => {
    const users = new Users(home);
    const { pid, state } = (await running(home, say)) ?? (await start(home, binary, say, find, users));
    const use = users.enter();
    return {
      adminUrl: urlOf(state),
      kind: 'local',
      engine: state.engine,
      description: describe(home, state),
      stop: async () =>
        await withLock(home, say, async () => {
          if (users.leave(use)) await stopServer(home, pid);
        }),
    };
  });
}

/** Ends the server of a throw-away folder at once, without regard for its data, and removes the folder. Never waits. */
export function discardPrivateServer(folder: string): void {
  const home = resolve(folder);
  for (const pid of pidsOf(home, readState(home))) process.kill(pid, 'SIGKILL');
  // A server that is ending may still make a file.
  rmSync(home, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 });
}

/** The server that this folder's state tells of, if it runs and lets us in. */
async function running(home: string, say: Say): Promise<Running | null> {
  const state = readState(home);
  if (state === null || !(await logsIn(home, state))) return null;
  const pid = pidsOf(home, state)[0] ?? null;
  say(`Using the private ${describe(home, state)}, which runs already`);
  return { pid, state };
}

async function start(
  home: string,
  offered: ServerBinary,
  say: Say,
  find: FindServer,
  users: Users,
): Promise<Running> {
  const known = readState(home);
  // Without data, what a failed start has noted binds nobody.
  const kept = known !== null && holdsServerData(home) ? known : null;
  const binary = kept === null ? offered : programFor(home, kept, offered, find);
  // One that still starts or shuts down holds the data; two servers on one folder must not be.
  for (const pid of pidsOf(home, known)) await gone(home, pid);
  users.dropOwn();
  const wanted = { ...(kept ?? (await newState(binary))), version: binary.version, pid: null };
  const port = await freePort(wanted.port);
  if (port !== wanted.port) say(`Port ${wanted.port} of the private database is taken: moving it to ${port}`);
  const state = { ...wanted, port };
  writeState(home, state);
  const user = serverUser(home);
  await makeDataFolder(home, binary, user, say);
  assertOwn(join(home, 'data'));
  say(`Starting a private ${describe(home, state)}`);
  const pid = await launch(home, binary, user, state, async () => await logsIn(home, state));
  return { pid, state: { ...state, pid } };
}

/** The program that may open these data. */
function programFor(home: string, kept: ServerState, offered: ServerBinary, find: FindServer): ServerBinary {
  const binary = offered.engine === kept.engine ? offered : find(kept.engine);
  const begin = `or move that folder away to begin with an empty database.`;
  if (binary === null) {
    throw new Error(
      `The data in ${home} belong to ${kept.engine} ${kept.version}, and this machine has only ${offered.engine}. ` +
        `Install ${kept.engine}, ${begin}`,
    );
  }
  if (series(binary.version) < series(kept.version)) {
    throw new Error(
      `The data in ${home} were used by ${kept.engine} ${kept.version}, and this machine has ${binary.version}, ` +
        `which cannot read them. Install the newer one, ${begin}`,
    );
  }
  return binary;
}

/** 10.11.6 as 10011: programs of one series read each other's data. */
function series(version: string): number {
  const [major = 0, minor = 0] = version.split('.').map(Number);
  return major * 1000 + minor;
}

function describe(home: string, { engine, port }: ServerState): string {
  return `${engine} server on 127.0.0.1:${port}, data in ${join(home, 'data')}`;
}

function urlOf({ password, port }: ServerState): string {
  return `mysql://root:${password}@127.0.0.1:${port}`;
}

/** Whether our administrator gets in, and the server is this folder's: a copied folder knows another one's password. */
async function logsIn(home: string, state: ServerState): Promise<boolean> {
  try {
    const connection = await mysql.createConnection({ uri: urlOf(state), connectTimeout: 2_000 });
    try {
      const [rows] = await connection.query<mysql.RowDataPacket[]>('SELECT @@datadir AS folder');
      return realpathSync(String(rows[0]?.['folder'])) === realpathSync(join(home, 'data'));
    } finally {
      connection.destroy();
    }
  } catch {
    return false;
  }
}

async function stopServer(home: string, pid: number | null): Promise<void> {
  if (pid === null) return;
  if (isServer(home, pid)) process.kill(pid, 'SIGTERM');
  await gone(home, pid);
  const state = readState(home);
  if (state !== null) writeState(home, { ...state, pid: null });
}

/** Waits until that server has ended; kills it when it does not. */
async function gone(home: string, pid: number): Promise<void> {
  const deadline = Date.now() + stopWaitMs;
  while (isServer(home, pid)) {
    if (Date.now() > deadline) process.kill(pid, 'SIGKILL');
    await pause(50);
  }
}

/** The running servers of this folder: by its state, and by the server's own note where a start died between. */
function pidsOf(home: string, state: ServerState | null): number[] {
  const noted = Number(readIfThere(join(home, 'data', 'server.pid')) ?? 0);
  return [...new Set([state?.pid ?? 0, noted])].filter((pid) => pid > 0 && isServer(home, pid));
}

/** A process's number may have been given to another since; the server of this folder names the folder. */
function isServer(home: string, pid: number): boolean {
  return hasArgument(pid, `--datadir=${join(home, 'data')}`);
}
