import { randomBytes } from 'node:crypto';
import { mkdirSync } from 'node:fs';
import { join, resolve } from 'node:path';
import mysql from 'mysql2/promise';
import { readIfThere, replaceFile } from './files.ts';
import type { ProvidedDatabase } from './local-server.ts';
import { withLock } from './lock.ts';
import { pause, run, tail, type Finished } from './process.ts';
import { Users } from './users.ts';

const image = 'mysql:9.7';
/** Fetching the image is part of it. */
const runWaitMs = 600_000;
const readyWaitMs = 120_000;
const commandWaitMs = 60_000;

interface ContainerState {
  /** Of the container and of its volume; each folder has its own. */
  name: string;
  password: string;
  /** It has been up once: the folder's data are in its volume. */
  used: boolean;
}

/** Whether a Docker engine can be reached with the `docker` command. */
export async function dockerAnswers(): Promise<boolean> {
  return (await docker(['info', '--format', '{{.ServerVersion}}'], 10_000)).status === 0;
}

/** Whether the folder's data are in a container's volume. */
export function usesContainer(folder: string): boolean {
  return readState(resolve(folder))?.used === true;
}

/**
 * A MySQL container with a named volume, so that the data survive it: started if it does not run, shared if it does;
 * the last user to leave stops it. Throws with what Docker or the server said.
 */
export async function containerServer(
  folder: string,
  say: (line: string) => void,
): Promise<ProvidedDatabase> {
  const home = resolve(folder);
  mkdirSync(home, { recursive: true, mode: 0o755 });
  return await withLock(home, say, async () => {
    const users = new Users(home);
    const state = readState(home) ?? newState(home);
    const { name } = state;
    if (await isRunning(name)) {
      say(`Using the container ${name}, which runs already`);
    } else {
      say(`Starting a container of ${image}, ${name}; its data are in the volume of the same name`);
      users.dropOwn();
      await start(state);
    }
    const port = await portOf(name);
    const adminUrl = `mysql://root:${state.password}@127.0.0.1:${port}`;
    await ready(adminUrl, name);
    replaceFile(statePath(home), `${JSON.stringify({ ...state, used: true })}\n`);
    const use = users.enter();
    return {
      adminUrl,
      kind: 'container',
      engine: 'mysql',
      description: `container ${name} of ${image} on 127.0.0.1:${port}`,
      stop: async () =>
        await withLock(home, say, async () => {
          if (users.leave(use)) await docker(['stop', '--time', '30', name]);
        }),
    };
  });
}

function statePath(home: string): string {
  return join(home, 'container.json');
}

function readState(home: string): ContainerState | null {
  const text = readIfThere(statePath(home));
  return text === null ? null : (JSON.parse(text) as ContainerState);
}

function newState(home: string): ContainerState {
  const state = {
    // Another folder's, or a removed folder's, volume must not be met by chance.
    name: `luckyledger-${randomBytes(5).toString('hex')}`,
    password: randomBytes(18).toString('base64url'),
    used: false,
  };
  replaceFile(statePath(home), `${JSON.stringify(state)}\n`);
  return state;
}

async function isRunning(name: string): Promise<boolean> {
  const told = await docker(['inspect', '--format', '{{.State.Running}}', name]);
  return told.status === 0 && told.stdout.trim() === 'true';
}

async function start({ name, password, used }: ContainerState): Promise<void> {
  // The volume holds the data; what is left of a stopped container is of no use.
  await docker(['rm', name]);
  // A first start that was cut short leaves a volume whose password nobody can be sure of.
  if (!used) await docker(['volume', 'rm', name]);
  const publish = ['--publish', '127.0.0.1::3306', '--volume', `${name}:/var/lib/mysql`];
  const started = await docker(
    ['run', '--detach', '--name', name, ...publish, '--env', 'MYSQL_ROOT_PASSWORD', image],
    runWaitMs,
    // By the environment: the arguments of a process are no secret.
    { ...process.env, MYSQL_ROOT_PASSWORD: password },
  );
  if (started.status !== 0) {
    await docker(['rm', '--force', name]);
    throw new Error(`The container did not start: ${tail(started.stderr, 3)}`);
  }
}

async function portOf(name: string): Promise<string> {
  const told = await docker(['port', name, '3306/tcp']);
  const port = /:(\d+)$/m.exec(told.stdout)?.[1];
  if (port === undefined) throw new Error(`The container ${name} has no port: ${tail(told.stderr, 3)}`);
  return port;
}

async function ready(adminUrl: string, name: string): Promise<void> {
  const deadline = Date.now() + readyWaitMs;
  for (;;) {
    try {
      const connection = await mysql.createConnection({ uri: adminUrl, connectTimeout: 2_000 });
      connection.destroy();
      return;
    } catch (error) {
      const ended = !(await isRunning(name));
      if (ended || Date.now() > deadline) {
        const log = await docker(['logs', '--tail', '8', name]);
        const what = ended ? 'ended' : `did not answer in ${readyWaitMs / 1000} s`;
        throw new Error(
          `The container ${name} ${what}. The end of its log:\n${tail(log.stdout + log.stderr)}`,
          {
            cause: error,
          },
        );
      }
      await pause(300);
    }
  }
}

async function docker(
  args: readonly string[],
  timeoutMs = commandWaitMs,
  env: NodeJS.ProcessEnv = process.env,
): Promise<Finished> {
  return await run('docker', args, { timeoutMs, env });
}
