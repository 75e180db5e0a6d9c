import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { request, type Agent } from 'node:http';
import { connect, type Socket } from 'node:net';
import { createInterface } from 'node:readline';
import { setTimeout as after } from 'node:timers/promises';
import { assert } from 'chai';
import type mysql from 'mysql2/promise';
import type { TestBooks } from '../support/service.ts';

export const apiKey = 'workers-test-api-key';
export const root = new URL('../../', import.meta.url).pathname;
/** Compiled: see test/run.mjs. From its sources each process would take a second longer to start. */
const compiled = ['dist/main.js'];

export interface Answer {
  status: number;
  text: string;
  body: Record<string, unknown>;
}

/** A service on the real command line, with what it prints. */
export class Serving {
  readonly child: ChildProcess;
  readonly lines: string[] = [];
  readonly exit: Promise<{ code: number | null; signal: string | null }>;
  /** Settles when every process that holds our pipes has ended: the parent and its workers. */
  readonly allEnded: Promise<unknown>;
  address = '';
  #tellLine: () => void = () => {};
  #over = false;

  private constructor(program: readonly string[], environment: NodeJS.ProcessEnv) {
    this.child = spawn(process.execPath, [...program, 'serve'], {
      cwd: root,
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...process.env, ...environment },
    });
    for (const stream of [this.child.stdout, this.child.stderr]) {
      if (stream === null) throw new Error('no pipe');
      createInterface({ input: stream }).on('line', (line) => {
        this.lines.push(line);
        this.#tellLine();
      });
    }
    this.exit = new Promise((resolve) => {
      this.child.once('exit', (code, signal) => resolve({ code, signal }));
    });
    this.allEnded = once(this.child, 'close').then(() => {
      this.#over = true;
      this.#tellLine();
    });
  }

  /** Spawns it, without waiting that it serves. */
  static spawn(
    books: TestBooks,
    workers: number,
    environment: NodeJS.ProcessEnv = {},
    program: readonly string[] = compiled,
  ): Serving {
    return new Serving(program, {
      DATABASE_URL: books.url,
      MIGRATE_DATABASE_URL: books.adminUrl,
      API_KEY: apiKey,
      TOKEN_SECRET: '',
      LOG_LEVEL: 'info',
      POOL_SIZE: '4',
      HOST: '127.0.0.1',
      PORT: '0',
      WORKERS: String(workers),
      ...environment,
    });
  }

  static async start(...args: Parameters<typeof Serving.spawn>): Promise<Serving> {
    const serving = Serving.spawn(...args);
    const line = await serving.line(/serves on (\S+)/);
    serving.address = /serves on (\S+)/.exec(line)?.[1] ?? '';
    return serving;
  }

  /** The first line from `from` on that matches, as soon as it is printed. Throws when the service ended without. */
  async line(pattern: RegExp, from = 0): Promise<string> {
    for (;;) {
      const found = this.lines.slice(from).find((line) => pattern.test(line));
      if (found !== undefined) return found;
      if (this.#over) throw new Error(`it ended without ${String(pattern)}:\n${this.lines.join('\n')}`);
      await new Promise<void>((resolve) => (this.#tellLine = resolve));
    }
  }

  /** The lines of the log, parsed. */
  logged(): Record<string, unknown>[] {
    return this.lines
      .filter((line) => line.startsWith('{'))
      .map((line) => JSON.parse(line) as Record<string, unknown>);
  }

  /** The numbers of the workers that have come to serve, dead ones too. */
  workerPids(): number[] {
    return this.logged()
      .filter(({ message }) => message === 'a worker serves')
      .map(({ workerPid }) => Number(workerPid));
  }

  /** A grab by a client that does not repeat: rejects when the connection breaks. */
  async grabOnce(packetId: string, userId: string): Promise<Answer> {
    return await this.post(`/v1/packets/${packetId}/grabs`, { userId });
  }

  async get(path: string, agent?: Agent): Promise<Answer> {
    return await call(this.address, 'GET', path, undefined, agent === undefined ? {} : { agent });
  }

  /** A connection: with an answered request on it, so that a worker has it, or only accepted by the system. */
  async idleSocket(answered = true): Promise<Socket> {
    const socket = connect(Number(new URL(this.address).port), '127.0.0.1');
    socket.on('error', () => {});
    await once(socket, 'connect');
    if (answered) {
      socket.write('GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n');
      await once(socket, 'data');
    }
    socket.resume();
    return socket;
  }

  async post(path: string, body: unknown, token = apiKey): Promise<Answer> {
    return await call(this.address, 'POST', path, body, { token });
  }

  /** A grab, repeated while its connection breaks, as a client would. Counts the repeats in `broken`. */
  async grab(packetId: string, userId: string, broken: { count: number } = { count: 0 }): Promise<Answer> {
    for (;;) {
      try {
        return await this.grabOnce(packetId, userId);
      } catch {
        broken.count += 1;
        await after(10);
      }
    }
  }

  /** The sum over all lines of this metric. */
  async metric(name: string): Promise<number> {
    return sumOf((await this.get('/metrics')).text, name);
  }

  /** Waits until this many grabs have reached the workers: they wait there, or are in a transaction. */
  async grabsArrived(count: number): Promise<void> {
    await until(`${count} grabs to arrive`, async () => {
      const { text } = await this.get('/metrics');
      return (
        sumOf(text, 'luckyledger_grabs_waiting') + sumOf(text, 'luckyledger_grab_batch_size_sum') === count
      );
    });
  }

  /** Ends it, if it has not ended, and all its workers. */
  async end(): Promise<void> {
    if (this.child.exitCode === null && this.child.signalCode === null) this.child.kill('SIGTERM');
    await this.allEnded;
  }
}

export async function call(
  address: string,
  method: string,
  path: string,
  body: unknown,
  options: { agent?: Agent; token?: string } = {},
): Promise<Answer> {
  return await new Promise((resolve, reject) => {
    const headers = {
      authorization: `Bearer ${options.token ?? apiKey}`,
      'idempotency-key': randomBytes(12).toString('hex'),
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
    };
    // Without an agent each call has a connection of its own, so that the calls are spread over the workers.
    const outgoing = request(
      `${address}${path}`,
      { method, headers, agent: options.agent ?? false },
      (response) => {
        let text = '';
        response.setEncoding('utf8').on('data', (part: string) => (text += part));
        response.on('error', reject);
        response.on('end', () => {
          const json = (response.headers['content-type'] ?? '').includes('json');
          resolve({
            status: response.statusCode ?? 0,
            text,
            body: (json ? JSON.parse(text) : {}) as Answer['body'],
          });
        });
      },
    );
    outgoing.on('error', reject);
    outgoing.end(body === undefined ? undefined : JSON.stringify(body));
  });
}

/** The sum of a metric's samples, whatever their labels. */
export function sumOf(text: string, name: string): number {
  return text
    .split('\n')
    .filter((line) => line.startsWith(`${name} `) || line.startsWith(`${name}{`))
    .reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' ') + 1)), 0);
}

/** Looks again and again, for what no line tells of. The test's own timeout is the limit. */
export async function until(what: string, holds: () => Promise<boolean> | boolean): Promise<void> {
  const end = performance.now() + 20_000;
  while (!(await holds())) {
    if (performance.now() > end) throw new Error(`waited in vain for ${what}`);
    await after(10);
  }
}

/** Keeps a packet locked, so that its grabs arrive and wait, until `release`. */
export async function hold(books: TestBooks, packetId: string): Promise<{ release: () => Promise<void> }> {
  const side: mysql.Connection = await books.sideSession();
  await side.beginTransaction();
  await side.query('SELECT id FROM packets WHERE id = ? FOR UPDATE', [packetId]);
  return {
    release: async () => {
      await side.rollback();
      await side.end();
    },
  };
}

/** Counts answers: `{granted: 300, SOLD_OUT: 100}`. */
export function tallied(answers: readonly Answer[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { body } of answers) {
    const name = String(body['outcome'] ?? body['code']);
    counts[name] = (counts[name] ?? 0) + 1;
  }
  return counts;
}

/** Every answered grab is in the books, with the amount that was told. Returns how many grabs the books hold. */
export async function assertBooked(
  books: TestBooks,
  packetId: string,
  answers: readonly Answer[],
): Promise<number> {
  const rows = await books.query<{ user: string; seq: number; amount: number }>(
    'SELECT user_id AS user, seq, amount FROM grabs WHERE packet_id = ?',
    [packetId],
  );
  const booked = new Map<unknown, object>(rows.map((row) => [row.user, { ...row }]));
  for (const { status, body } of answers) {
    if (status !== 200 && status !== 201) continue;
    const { userId: user, seq, amount } = body;
    assert.deepEqual(booked.get(user), { user, seq, amount });
  }
  return rows.length;
}

/** What `ps` shows of a process to everybody. */
export function commandLine(pid: number): string {
  if (process.platform === 'linux') return readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ');
  return spawnSync('ps', ['-ww', '-o', 'command=', '-p', String(pid)], { encoding: 'utf8' }).stdout;
}

export function isThere(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
