import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { readIfThere, replaceFile } from './files.ts';
import type { ServerBinary } from './server-binary.ts';

/** What is known of a private server between starts; readable by its owner only. */
export interface ServerState {
  engine: ServerBinary['engine'];
  /** The newest program that has used the data. */
  version: string;
  port: number;
  password: string;
  pid: number | null;
}

export function readState(home: string): ServerState | null {
  const text = readIfThere(join(home, 'server.json'));
  // A state without a version is one of before versions were kept: any program may try.
  return text === null ? null : { version: '0.0', ...(JSON.parse(text) as Omit<ServerState, 'version'>) };
}

export function writeState(home: string, state: ServerState): void {
  replaceFile(join(home, 'server.json'), `${JSON.stringify(state)}\n`);
}

/** Whether this folder holds a private server's data. */
export function holdsServerData(home: string): boolean {
  return existsSync(join(home, 'server.json')) && existsSync(join(home, 'data'));
}

export async function newState({ engine, version }: ServerBinary): Promise<ServerState> {
  const password = randomBytes(18).toString('base64url');
  return { engine, version, port: await freePort(), password, pid: null };
}

/** A port that nobody listens on: the wanted one if it is free, else any. */
export async function freePort(wanted = 0): Promise<number> {
  const probe = createServer();
  const bound = await new Promise<boolean>((resolve) => {
    probe.once('error', () => resolve(false));
    probe.listen(wanted, '127.0.0.1', () => resolve(true));
  });
  if (!bound) return await freePort();
  const address = probe.address();
  await new Promise<void>((done) => {
    probe.close(() => done());
  });
  if (address === null || typeof address === 'string') throw new Error('no free port');
  return address.port;
}
