import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { assert } from 'chai';
import mysql from 'mysql2/promise';
import { discardPrivateServer } from '../../src/setup/local-server.ts';
import { provideDatabase } from '../../src/setup/provide.ts';
import type { ServerState } from '../../src/setup/server-state.ts';

/** A temporary folder for a private server; `remove` ends whatever server is left on it. */
export class Folder {
  readonly path = mkdtempSync(join(tmpdir(), 'luckyledger-setup-'));
  readonly said: string[] = [];
  readonly say = (line: string): void => void this.said.push(line);
  readonly #others: ChildProcess[] = [];

  async provide(): Promise<{ adminUrl: string; stop: () => Promise<void> }> {
    // Where there is no server program yet, this installs one, as a first start does.
    return await provideDatabase(this.path, this.say, { container: false });
  }

  /** The same in a process of its own. */
  async provideElsewhere(): Promise<{ adminUrl: string; child: ChildProcess; leave: () => Promise<void> }> {
    const child = spawn(
      process.execPath,
      ['--import', 'tsx', new URL('starter.ts', import.meta.url).pathname, this.path],
      { stdio: ['pipe', 'pipe', 'inherit'] },
    );
    this.#others.push(child);
    const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
    const line: IteratorResult<string, undefined> = await lines.next();
    if (line.done === true) throw new Error('the other process ended early');
    const leave = async (): Promise<void> => {
      const exit = once(child, 'exit');
      child.stdin.end();
      await exit;
    };
    return { adminUrl: line.value, child, leave };
  }

  state(): ServerState {
    return JSON.parse(readFileSync(join(this.path, 'server.json'), 'utf8')) as ServerState;
  }

  serverPid(): number {
    const { pid } = this.state();
    assert.isNotNull(pid, 'a server runs');
    return pid ?? 0;
  }

  remove(): void {
    for (const child of this.#others) child.kill('SIGKILL');
    discardPrivateServer(this.path);
  }
}

export async function query(adminUrl: string, sql: string): Promise<unknown> {
  const connection = await mysql.createConnection({ uri: adminUrl, connectTimeout: 5_000 });
  try {
    const [rows] = await connection.query(sql);
    return rows;
  } finally {
    await connection.end();
  }
}

export async function answers(adminUrl: string): Promise<boolean> {
  try {
    await query(adminUrl, 'SELECT 1');
    return true;
  } catch {
    return false;
  }
}

/** The message of the Error that this throws; fails when it does not throw. */
export async function messageOf(work: Promise<unknown>): Promise<string> {
  try {
    await work;
  } catch (error) {
    assert.instanceOf(error, Error);
    return error.message;
  }
  return assert.fail('nothing was thrown');
}

/** Kills a child and waits until it has ended. */
export async function killed(child: ChildProcess): Promise<void> {
  const exit = once(child, 'exit');
  child.kill('SIGKILL');
  await exit;
}
