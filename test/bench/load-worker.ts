import { connect, type Socket } from 'node:net';
import { AnswerReader } from './answer-reader.ts';
import { Histogram } from './histogram.ts';
import type { LoadMessage, LoadPlan, LoadResult } from './load.ts';

/**
 * The load generator's process. It shares the machine with what it measures, so it does as little as it can: raw
 * sockets, each with a buffer of its own that is read into again and again, one write for a request whose text is
 * ready but for the user, and of an answer only the status and its end.
 */
const readBytes = 16 * 1024;
const defaultDrainSeconds = 10;
const reconnectMs = 20;
/** How often the open loop looks at what is due, besides at every answer. */
const tickMs = 1;

interface Connection {
  socket: Socket | null;
  reader: AnswerReader;
  /** When the request under way was sent (open: due), by `performance.now()`; null while the connection is free. */
  since: number | null;
}

class Load {
  readonly #plan: LoadPlan;
  readonly #heads: string[];
  readonly #tails: [string, string];
  readonly #openRate: number | null;
  readonly #latency = new Histogram();
  readonly #late = new Histogram();
  readonly #byStatus = new Map<number, number>();
  readonly #errorCodes = new Map<string, number>();
  readonly #samples: { status: number; body: string }[] = [];
  readonly #connections: Connection[] = [];
  /** Open loop: those without a request, the longest free one first, so that all of them are used. */
  readonly #free: Connection[] = [];
  /** Requests sent so far; also the number of the next one. */
  #sent = 0;
  #requests = 0;
  #answersInWindow = 0;
  #begin = 0;
  #windowStart = Infinity;
  #windowEnd = Infinity;
  /** Open loop: when it last looked whether something is due. */
  #looked = 0;
  #finished: (() => void) | null = null;

  constructor(plan: LoadPlan) {
    this.#plan = plan;
    this.#openRate = plan.mode === 'closed' ? null : plan.mode.ratePerSecond;
    const [before = '', after = '', ...more] = (plan.body ?? '{"userId":"{user}"}').split('{user}');
    if (more.length > 0) throw new Error('the body may name {user} once');
    const headers = {
      host: `${hostOf(plan)}:${plan.port}`,
      'content-type': 'application/json',
      ...plan.headers,
    };
    const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
    this.#tails = [before, after];
    this.#heads = plan.paths.map(
      (path) => `${plan.method ?? 'POST'} ${path} HTTP/1.1\r\n${lines.join('')}content-length: `,
    );
    // Bytes are counted as characters.
    if (!/^[\x20-\x7e\r\n]*$/.test([...this.#heads, before, after, plan.users.prefix].join('')))
      throw new Error('the request must be ASCII');
    if (this.#heads.length === 0) throw new Error('there is no path');
  }

  async run(say: (message: LoadMessage) => void): Promise<LoadResult> {
    const { connections, warmupSeconds, seconds, drainSeconds = defaultDrainSeconds } = this.#plan;
    await Promise.all(Array.from({ length: connections }, async () => await this.#open()));
    this.#begin = performance.now();
    this.#windowStart = this.#begin + warmupSeconds * 1000;
    this.#windowEnd = this.#windowStart + seconds * 1000;
    this.#looked = this.#begin;
    const ticking = this.#openRate === null ? null : setInterval(() => this.#sendDue(), tickMs);
    for (const connection of this.#connections) this.#next(connection);
    await until(this.#windowStart);
    const cpu = process.cpuUsage();
    say('began');
    await until(this.#windowEnd);
    const { user, system } = process.cpuUsage(cpu);
    say('ended');
    const drained = new Promise<void>((resolve) => {
      this.#finished = resolve;
    });
    this.#finishIfDone();
    let timer: NodeJS.Timeout | undefined;
    await Promise.race([
      drained,
      new Promise((resolve) => (timer = setTimeout(resolve, drainSeconds * 1000))),
    ]);
    clearTimeout(timer);
    if (ticking !== null) clearInterval(ticking);
    this.#giveUpTheRest();
    return this.#result((user + system) / 1e6);
  }

  /** Resolves when the connection is there; rejects when it cannot be had. */
  async #open(): Promise<void> {
    const connection: Connection = {
      socket: null,
      reader: new AnswerReader(() => this.#samples.length < (this.#plan.samples ?? 0)),
      since: null,
    };
    this.#connections.push(connection);
    await new Promise<void>((resolve, reject) => this.#connect(connection, resolve, reject));
  }

  #connect(connection: Connection, ready: () => void, failed: (error: Error) => void): void {
    connection.reader.reset();
    const socket = connect({
      host: hostOf(this.#plan),
      port: this.#plan.port,
      noDelay: true,
      onread: {
        buffer: Buffer.allocUnsafe(readBytes),
        callback: (bytes, buffer) => {
          this.#received(connection, (buffer as Buffer).subarray(0, bytes));
          return true;
        },
      },
    });
    let why = 'CLOSED';
    socket.once('connect', () => {
      connection.socket = socket;
      ready();
    });
    socket.once('error', (error: NodeJS.ErrnoException) => {
      why = error.code ?? error.message;
    });
    socket.once('close', () => {
      if (connection.socket === null) failed(new Error(why));
      else this.#lost(connection, why);
    });
  }

  /** A connection is gone: the request under way on it has no answer, and another connection takes its place. */
  #lost(connection: Connection, why: string): void {
    connection.socket = null;
    const at = this.#free.indexOf(connection);
    if (at !== -1) this.#free.splice(at, 1);
    const { since } = connection;
    connection.since = null;
    if (since !== null) this.#failed(since, why);
    this.#finishIfDone();
    this.#reconnect(connection);
  }

  #reconnect(connection: Connection): void {
    if (performance.now() >= this.#windowEnd && this.#openRate === null) return;
    this.#connect(
      connection,
      () => this.#next(connection),
      (error) => {
        if (this.#openRate === null) this.#failed(performance.now(), error.message);
        setTimeout(() => this.#reconnect(connection), reconnectMs);
      },
    );
  }

  #received(connection: Connection, chunk: Buffer): void {
    let answer;
    try {
      answer = connection.reader.read(chunk);
      if (answer !== null && connection.since === null) throw new Error('UNASKED_BYTES');
    } catch (error) {
      connection.socket?.destroy(error as Error);
      return;
    }
    if (answer === null || connection.since === null) return;
    const now = performance.now();
    this.#count(connection.since, now, answer);
    connection.since = null;
    if (answer.close) {
      connection.socket?.end();
      return;
    }
    this.#next(connection);
  }

  #count(since: number, now: number, { status, body }: { status: number; body: string | null }): void {
    if (now >= this.#windowStart && now < this.#windowEnd) this.#answersInWindow += 1;
    if (!this.#inWindow(since)) return;
    this.#requests += 1;
    this.#latency.record(now - since);
    this.#byStatus.set(status, (this.#byStatus.get(status) ?? 0) + 1);
    if (body !== null) this.#samples.push({ status, body });
  }

  #failed(since: number, code: string): void {
    if (!this.#inWindow(since)) return;
    this.#requests += 1;
    this.#latency.record(performance.now() - since);
    this.#errorCodes.set(code, (this.#errorCodes.get(code) ?? 0) + 1);
  }

  #inWindow(since: number): boolean {
    return since >= this.#windowStart && since < this.#windowEnd;
  }

  /** A connection has become free. */
  #next(connection: Connection): void {
    const now = performance.now();
    if (this.#openRate !== null) {
      this.#free.push(connection);
      this.#sendDue();
    } else if (now < this.#windowEnd) this.#send(connection, now);
    this.#finishIfDone();
  }

  /** When request n of the open loop is due. */
  #dueAt(n: number): number {
    return this.#begin + (n * 1000) / (this.#openRate ?? 1);
  }

  /** Open loop: sends what is due and finds a connection; the rest waits, and its latency runs. */
  #sendDue(): void {
    const now = performance.now();
    for (
      let due = this.#dueAt(this.#sent);
      due <= now && due < this.#windowEnd;
      due = this.#dueAt(this.#sent)
    ) {
      const connection = this.#free.shift();
      if (connection === undefined) break;
      // Due since the last look: late by the generator's own doing. Earlier: it waited for a connection.
      if (due >= this.#looked && this.#inWindow(due)) this.#late.record(now - due);
      this.#send(connection, due);
    }
    this.#looked = now;
  }

  #send(connection: Connection, since: number): void {
    const n = this.#sent;
    this.#sent += 1;
    const { prefix, from = 0, count } = this.#plan.users;
    const user = `${prefix}${from + (count === undefined ? n : n % count)}`;
    const [before, after] = this.#tails;
    const length = before.length + user.length + after.length;
    connection.since = since;
    connection.socket?.write(
      `${this.#heads[n % this.#heads.length]}${length}\r\n\r\n${before}${user}${after}`,
      'latin1',
    );
  }

  #finishIfDone(): void {
    if (this.#finished === null || performance.now() < this.#windowEnd) return;
    if (this.#openRate !== null && this.#dueAt(this.#sent) < this.#windowEnd) return;
    if (this.#connections.every(({ since }) => since === null)) this.#finished();
  }

  /** What has no answer by now: its latency is at least what it has waited. */
  #giveUpTheRest(): void {
    for (const { since } of this.#connections) if (since !== null) this.#failed(since, 'NO_ANSWER');
    if (this.#openRate === null) return;
    for (let n = this.#sent; this.#dueAt(n) < this.#windowEnd; n += 1)
      this.#failed(this.#dueAt(n), 'NOT_SENT');
  }

  #result(cpuSeconds: number): LoadResult {
    const { seconds } = this.#plan;
    const latency = this.#latency;
    const errorCodes = Object.fromEntries(this.#errorCodes);
    return {
      seconds,
      requests: this.#requests,
      perSecond: this.#answersInWindow / seconds,
      byStatus: Object.fromEntries([...this.#byStatus].map(([status, count]) => [String(status), count])),
      p50: latency.quantile(0.5),
      p90: latency.quantile(0.9),
      p99: latency.quantile(0.99),
      p999: latency.quantile(0.999),
      max: latency.max,
      errors: Object.values(errorCodes).reduce((sum, count) => sum + count, 0),
      errorCodes,
      cpuSeconds,
      generatorLate:
        this.#openRate === null
          ? null
          : { p50: this.#late.quantile(0.5), p99: this.#late.quantile(0.99), max: this.#late.max },
      samples: this.#samples,
      usersUsed: this.#sent,
    };
  }
}

function hostOf(plan: LoadPlan): string {
  return plan.host ?? '127.0.0.1';
}

async function until(time: number): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, Math.max(0, time - performance.now())));
}

function say(message: LoadMessage): void {
  process.send?.(message);
}

process.once('message', (plan: LoadPlan) => {
  // The parent ends this process when it has heard the result.
  Promise.resolve()
    .then(async () => await new Load(plan).run(say))
    .then(
      (result) => say({ result }),
      (error: unknown) =>
        say({ error: `load generator: ${error instanceof Error ? error.message : String(error)}` }),
    );
});
process.once('disconnect', () => process.exit(0));
say('ready');
