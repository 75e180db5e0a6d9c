import { spawn, spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import {
  chownSync,
  existsSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:net';
import { join, resolve } from 'node:path';
import mysql from 'mysql2/promise';
import { findServer, type ServerBinary } from './server-binary.ts';

export interface ProvidedDatabase {
  /** Of the administrator, without a database's name. */
  adminUrl: string;
  /** For people: what it is and where it runs. */
  description: string;
  /** Ends the server, if this call started it; its data stay. */
  stop: () => Promise<void>;
}

/** Kept in the folder, readable by its owner only. */
interface ServerState {
  engine: ServerBinary['engine'];
  port: number;
  password: string;
  pid: number | null;
  /** The process that started it and will end it. */
  owner: number | null;
}

const startWaitMs = 60_000;
const stopWaitMs = 30_000;

/**
 * A private server with its data under `folder`: made if missing, started if it does not run, and used as it is if
 * it does (then whoever started it ends it). A server that was killed recovers by itself when it is started again.
 * Throws with the tail of the server's log when it does not come up.
 */
export async function privateServer(
  folder: string,
  binary: ServerBinary,
  say: (line: string) => void,
): Promise<ProvidedDatabase> {
  const home = resolve(folder);
  mkdirSync(home, { recursive: true, mode: 0o755 });
  const state = readState(home) ?? (await newState(home, binary.engine));
  if (state.engine !== binary.engine) {
    const other = findServer(state.engine);
    if (other === null) {
      throw new Error(
        `The data in ${home} belong to ${state.engine}, which is not on this machine any more. ` +
          `Install it, or move that folder away to begin with an empty database.`,
      );
    }
    return await privateServer(folder, other, say);
  }
  const where = `${state.engine} on 127.0.0.1:${state.port}, data in ${join(home, 'data')}`;
  const adminUrl = `mysql://root:${state.password}@127.0.0.1:${state.port}`;
  if (await logsIn(adminUrl)) {
    say(`Using the private ${where}`);
    const { owner, pid } = state;
    // Its owner was killed and left it behind: whoever comes next ends it.
    const orphaned = pid !== null && (owner === null || !isAlive(owner));
    if (!orphaned) return { adminUrl, description: where, stop: async () => {} };
    writeState(home, { ...state, owner: process.pid });
    return { adminUrl, description: where, stop: async () => await stopServer(home, state, pid) };
  }
  // One that still starts or shuts down holds the data; two servers on one folder must not be.
  await gone(state.pid, home, stopWaitMs);
  initialise(home, binary, state, say);
  say(`Starting a private ${where}`);
  const pid = await launch(home, binary, state);
  return { adminUrl, description: where, stop: async () => await stopServer(home, state, pid) };
}

function statePath(home: string): string {
  return join(home, 'server.json');
}

function readState(home: string): ServerState | null {
  if (!existsSync(statePath(home))) return null;
  return JSON.parse(readFileSync(statePath(home), 'utf8')) as ServerState;
}

function writeState(home: string, state: ServerState): void {
  // Written aside and renamed, so that a crash leaves the old state or the new one.
  writeFileSync(`${statePath(home)}.new`, `${JSON.stringify(state)}\n`, { mode: 0o600 });
  renameSync(`${statePath(home)}.new`, statePath(home));
}

async function newState(home: string, engine: ServerBinary['engine']): Promise<ServerState> {
  const state = {
    engine,
    port: await freePort(),
    password: randomBytes(18).toString('base64url'),
    pid: null,
    owner: null,
  };
  writeState(home, state);
  return state;
}

/** Makes the data folder aside and renames it when it is whole. */
function initialise(
  home: string,
  binary: ServerBinary,
  state: ServerState,
  say: (line: string) => void,
): void {
  const data = join(home, 'data');
  if (existsSync(data)) return;
  say(`Making a ${binary.engine} data folder`);
  const draft = join(home, 'data.new');
  rmSync(draft, { recursive: true, force: true });
  mkdirSync(draft, { mode: 0o750 });
  own(home, draft);
  const [program, args] =
    binary.installer === null
      ? [binary.server, ['--no-defaults', '--initialize-insecure', ...asUser(home), `--datadir=${draft}`]]
      : [
          binary.installer,
          [
            '--no-defaults',
            '--force',
            '--skip-name-resolve',
            '--skip-test-db',
            ...asUser(home),
            `--datadir=${draft}`,
            '--auth-root-authentication-method=normal',
          ],
        ];
  const made = spawnSync(program, args, { encoding: 'utf8', timeout: 180_000 });
  if (made.status !== 0) {
    throw new Error(`${program} could not make a data folder:\n${tail(`${made.stdout}\n${made.stderr}`)}`);
  }
  const init = join(home, 'init.sql');
  // Runs at each start: sets the password that the state holds.
  const secret = binary.engine === 'mysql' ? 'WITH caching_sha2_password BY' : 'BY';
  writeFileSync(
    init,
    // MariaDB's initialiser has made root@127.0.0.1 without a password, and an anonymous user.
    `DROP USER IF EXISTS ''@'localhost';\n` +
      `CREATE USER IF NOT EXISTS 'root'@'127.0.0.1';\n` +
      `GRANT ALL ON *.* TO 'root'@'127.0.0.1' WITH GRANT OPTION;\n` +
      `ALTER USER 'root'@'127.0.0.1' IDENTIFIED ${secret} '${state.password}';\n` +
      `ALTER USER 'root'@'localhost' IDENTIFIED ${secret} '${state.password}';\n`,
    { mode: 0o600 },
  );
  own(home, init);
  renameSync(draft, data);
}

async function launch(home: string, binary: ServerBinary, state: ServerState): Promise<number> {
  const logPath = join(home, 'server.log');
  const log = openSync(logPath, 'a');
  const socket = `/tmp/luckyledger-${state.port}.sock`;
  const engineOptions = binary.engine === 'mysql' ? ['--mysqlx=OFF', '--secure-file-priv=NULL'] : [];
  const child = spawn(
    binary.server,
    [
      '--no-defaults',
      ...asUser(home),
      `--datadir=${join(home, 'data')}`,
      `--port=${state.port}`,
      '--bind-address=127.0.0.1',
      // Logins are by address, so 127.0.0.1 must not be turned into a name.
      '--skip-name-resolve',
      `--socket=${socket}`,
      `--pid-file=${join(home, 'data', 'server.pid')}`,
      `--init-file=${join(home, 'init.sql')}`,
      '--max-connections=300',
      ...engineOptions,
    ],
    { stdio: ['ignore', log, log], detached: true },
  );
  child.unref();
  let ended = false;
  child.on('exit', () => {
    ended = true;
  });
  child.on('error', () => {
    ended = true;
  });
  const pid = child.pid ?? 0;
  writeState(home, { ...state, pid, owner: process.pid });
  const adminUrl = `mysql://root:${state.password}@127.0.0.1:${state.port}`;
  const deadline = Date.now() + startWaitMs;
  while (!(await logsIn(adminUrl))) {
    if (ended || Date.now() > deadline) {
      if (!ended) child.kill('SIGKILL');
      throw new Error(
        `The database server did not come up. The end of ${logPath}:\n${tail(readFileSync(logPath, 'utf8'))}`,
      );
    }
    await pause(100);
  }
  return pid;
}

async function stopServer(home: string, state: ServerState, pid: number): Promise<void> {
  if (isServer(pid, home)) process.kill(pid, 'SIGTERM');
  await gone(pid, home, stopWaitMs);
  writeState(home, { ...state, pid: null, owner: null });
}

/** Waits until that server has ended; kills it when it does not. */
async function gone(pid: number | null, home: string, waitMs: number): Promise<void> {
  if (pid === null) return;
  const deadline = Date.now() + waitMs;
  while (isServer(pid, home)) {
    if (Date.now() > deadline) process.kill(pid, 'SIGKILL');
    await pause(100);
  }
}

/** Whether this process is alive and is the server of this folder: a number may have been given to another since. */
function isServer(pid: number, home: string): boolean {
  if (!isAlive(pid)) return false;
  const commandLine = `/proc/${pid}/cmdline`;
  if (existsSync(commandLine)) return readFileSync(commandLine, 'utf8').includes(join(home, 'data'));
  const told = spawnSync('ps', ['-o', 'command=', '-p', String(pid)], { encoding: 'utf8' });
  return told.stdout.includes(join(home, 'data'));
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

async function logsIn(adminUrl: string): Promise<boolean> {
  try {
    const connection = await mysql.createConnection({ uri: adminUrl, connectTimeout: 2_000 });
    await connection.query('SELECT 1');
    await connection.end();
    return true;
  } catch {
    return false;
  }
}

/**
 * A server refuses to run as root unless told to, and should not: `mysql` is what its package made. But a clone
 * under a closed home folder is out of that user's reach; then the server runs as root, who owns the folder.
 */
function asUser(home: string): string[] {
  if (process.getuid?.() !== 0) return [];
  return [`--user=${reachableIds(home) === null ? 'root' : 'mysql'}`];
}

/** The ids of the user `mysql`, if there is one and it can reach this folder. */
function reachableIds(home: string): { uid: number; gid: number } | null {
  const ids = mysqlIds();
  if (ids === null) return null;
  const reaches = spawnSync('test', ['-x', home], { ...ids }).status === 0;
  return reaches ? ids : null;
}

function mysqlIds(): { uid: number; gid: number } | null {
  const uid = spawnSync('id', ['-u', 'mysql'], { encoding: 'utf8' });
  const gid = spawnSync('id', ['-g', 'mysql'], { encoding: 'utf8' });
  return uid.status === 0 ? { uid: Number(uid.stdout), gid: Number(gid.stdout) } : null;
}

function own(home: string, path: string): void {
  const ids = process.getuid?.() === 0 ? reachableIds(home) : null;
  if (ids !== null) chownSync(path, ids.uid, ids.gid);
}

async function freePort(): Promise<number> {
  const probe = createServer();
  await new Promise<void>((done) => {
    probe.listen(0, '127.0.0.1', done);
  });
  const address = probe.address();
  await new Promise<void>((done) => {
    probe.close(() => done());
  });
  if (address === null || typeof address === 'string') throw new Error('no free port');
  return address.port;
}

function tail(text: string): string {
  return text.trim().split('\n').slice(-8).join('\n');
}

async function pause(ms: number): Promise<void> {
  await new Promise((done) => {
    setTimeout(done, ms);
  });
}
