import type { Redis } from 'ioredis';
import type { Logger } from '../observe/log.ts';
import type { Metrics } from '../observe/metrics.ts';
import { Refusal } from '../refusal.ts';
import { Circuit } from './circuit.ts';
import { connectRedis, placeOf, reasonOf, renew } from './connection.ts';
import { takeFromWindow, type Run, type Taken } from './window.ts';

/** How long a request waits for Redis before it is admitted unasked. */
const defaultTimeoutMs = 50;
/** While the circuit is open: how often one question is asked to see whether Redis is back. */
const probeRestMs = 1_000;

export interface GateOptions {
  /** `redis://` or `rediss://`. */
  url: string;
  /** How many requests of one packet are admitted in one window, over all processes. */
  limit: number;
  windowMs: number;
  timeoutMs?: number;
  log: Pick<Logger, 'warn' | 'info'>;
  metrics: Metrics;
}

export interface Admission {
  /** All that were asked for, or 0. */
  admitted: number;
  /** When those that were not admitted may come again; 0 when all were. */
  retryAfterSeconds: number;
}

/**
 * A counter in Redis in front of a hot packet: past the limit of a window, requests are shed before they cost the
 * database anything. It decides nothing else. It knows no shares, so nothing that happens to Redis or to a process can
 * lose one or make one unreachable: at the worst, all are admitted, or wait for one window.
 */
export interface Gate {
  /**
   * Asks for `count` at once, admitted whole or not at all. Never rejects, and answers in about the timeout whatever
   * Redis does: a Redis that fails admits everything.
   */
  admit: (packetId: string, count: number) => Promise<Admission>;
  /** The circuit is open: Redis is not asked, and everything is admitted. */
  readonly open: boolean;
  close: () => Promise<void>;
}

/** Opens the gate. It waits for the connection as a request would, and opens without one. */
export async function openGate(options: GateOptions): Promise<Gate> {
  const gate = new RedisGate(options);
  await gate.started;
  return gate;
}

/** Refuses with SHED when the gate has no room; then nothing has been written. */
export async function passGate(gate: Gate, packetId: string, count: number): Promise<void> {
  const { admitted, retryAfterSeconds } = await gate.admit(packetId, count);
  if (admitted === count) return;
  throw new Refusal('SHED', {
    detail: 'Too many grabs of this packet at this moment. Nothing was written; try again.',
    retryAfterSeconds,
  });
}

interface Waiting {
  count: number;
  resolve: (admission: Admission) => void;
}

class RedisGate implements Gate {
  readonly started: Promise<void>;
  readonly #options: GateOptions;
  readonly #timeoutMs: number;
  readonly #redis: Redis;
  readonly #circuit: Circuit;
  readonly #metrics: ReturnType<typeof gateMetrics>;
  #pending = new Map<string, Waiting[]>();
  #probeTimer: NodeJS.Timeout | null = null;
  /** Questions under way; each ends within the timeout. */
  readonly #asking = new Set<Promise<void>>();
  #probing = false;
  #closed = false;

  constructor(options: GateOptions) {
    this.#options = options;
    this.#timeoutMs = options.timeoutMs ?? defaultTimeoutMs;
    this.#metrics = gateMetrics(options.metrics, () => this.open);
    this.#circuit = new Circuit({
      opened: (reason) => this.#opened(reason),
      closed: (openMs) => this.#reachedAgain(openMs),
    });
    let start = (): void => {};
    this.started = new Promise((resolve) => (start = resolve));
    const late = setTimeout(start, this.#timeoutMs);
    const settle = (): void => {
      clearTimeout(late);
      start();
    };
    this.#redis = connectRedis(options.url, {
      ready: () => {
        if (this.open) void this.#probe();
        settle();
      },
      failed: (reason) => {
        this.#circuit.open(reason);
        settle();
      },
    });
  }

  get open(): boolean {
    return this.#circuit.isOpen;
  }

  /** Requests of one packet that arrive in one turn of the event loop share one question. */
  async admit(packetId: string, count: number): Promise<Admission> {
    if (this.#closed || this.open) return this.#unasked(count);
    return await new Promise<Admission>((resolve) => {
      if (this.#pending.size === 0) setImmediate(() => this.#askAll());
      const waiting = this.#pending.get(packetId);
      if (waiting === undefined) this.#pending.set(packetId, [{ count, resolve }]);
      else waiting.push({ count, resolve });
    });
  }

  /** What still waits for Redis is admitted. */
  async close(): Promise<void> {
    this.#closed = true;
    if (this.#probeTimer !== null) clearTimeout(this.#probeTimer);
    this.#redis.disconnect();
    await Promise.all(this.#asking);
  }

  #askAll(): void {
    const pending = this.#pending;
    this.#pending = new Map();
    for (const [packetId, waiting] of pending) {
      const asking = this.#ask(packetId, waiting).finally(() => this.#asking.delete(asking));
      this.#asking.add(asking);
    }
  }

  async #ask(packetId: string, waiting: readonly Waiting[]): Promise<void> {
    const runs = runsOf(waiting);
    const taken = await this.#take(`gate:{${packetId}}`, runs);
    if (typeof taken === 'string') {
      for (const { count, resolve } of waiting) resolve(this.#unasked(count));
      return;
    }
    const retryAfterSeconds = Math.max(1, Math.ceil(taken.leftMs / 1000));
    let index = 0;
    for (const [run, { times }] of runs.entries()) {
      for (const [place, { count, resolve }] of waiting.slice(index, index + times).entries()) {
        const goes = place < (taken.admitted[run] ?? 0);
        if (!goes) this.#metrics.shed.inc(count);
        resolve(goes ? { admitted: count, retryAfterSeconds: 0 } : { admitted: 0, retryAfterSeconds });
      }
      index += times;
    }
  }

  /** What was taken, or why Redis did not answer well within the timeout. */
  async #take(key: string, runs: readonly Run[]): Promise<Taken | FailureReason> {
    // The connection tells by itself when it cannot be made; until then this is a moment, not an outage.
    if (this.#redis.status !== 'ready') return this.#failed('connection');
    const startedAt = performance.now();
    try {
      const answer = await within(this.#timeoutMs, takeFromWindow(this.#redis, key, this.#options, runs));
      if (answer !== 'late') {
        this.#circuit.succeeded();
        return answer;
      }
      this.#circuit.failed(startedAt, 'timeout');
      return this.#failed('timeout');
    } catch (error) {
      // A lost connection is made again in a moment; if it is not, it tells.
      if (this.#redis.status !== 'ready') return this.#failed('connection');
      this.#circuit.failed(startedAt, reasonOf(error));
      return this.#failed('reply');
    }
  }

  #failed(reason: FailureReason): FailureReason {
    this.#metrics.failures.inc({ reason });
    return reason;
  }

  #unasked(count: number): Admission {
    this.#metrics.unasked.inc(count);
    return { admitted: count, retryAfterSeconds: 0 };
  }

  #opened(reason: string): void {
    if (this.#closed) return;
    const redis = placeOf(this.#options.url);
    this.#options.log.warn('the gate does not reach Redis and admits everything', { redis, reason });
    this.#probeSoon();
  }

  #reachedAgain(openMs: number): void {
    const redis = placeOf(this.#options.url);
    this.#options.log.info('the gate reaches Redis again', { redis, openMs: Math.round(openMs) });
  }

  #probeSoon(): void {
    if (this.#closed) return;
    if (this.#probeTimer !== null) clearTimeout(this.#probeTimer);
    this.#probeTimer = setTimeout(() => void this.#probe(), probeRestMs).unref();
  }

  /** The real question, on a key of its own: a Redis that answers PING may still refuse to write. No request waits for it. */
  async #probe(): Promise<void> {
    if (this.#probing || this.#closed) return;
    this.#probing = true;
    const taken = await this.#take('gate:{probe}', [{ size: 1, times: 1 }]);
    this.#probing = false;
    if (typeof taken !== 'string') {
      this.#circuit.close();
      return;
    }
    if (taken === 'timeout') renew(this.#redis);
    this.#probeSoon();
  }
}

type FailureReason = 'timeout' | 'connection' | 'reply';

function gateMetrics(metrics: Metrics, isOpen: () => boolean) {
  metrics.gauge('luckyledger_gate_open', '1 while the gate does not ask Redis and admits everything.', () =>
    isOpen() ? 1 : 0,
  );
  return {
    shed: metrics.counter(
      'luckyledger_gate_shed_total',
      'Requests that the gate turned away; a batch counts as its users.',
    ),
    unasked: metrics.counter(
      'luckyledger_gate_unasked_total',
      'Requests that the gate admitted without an answer of Redis; a batch counts as its users.',
    ),
    failures: metrics.counter<'reason'>(
      'luckyledger_gate_failures_total',
      'Questions to Redis without a good answer: timeout, connection or reply.',
      ['reason'],
    ),
  };
}

/** In order of arrival, with neighbours of one size together. */
function runsOf(waiting: readonly Waiting[]): Run[] {
  const runs: Run[] = [];
  for (const { count } of waiting) {
    const last = runs.at(-1);
    if (last?.size === count) last.times += 1;
    else runs.push({ size: count, times: 1 });
  }
  return runs;
}

/** What the work resolves to, or 'late'. */
async function within<T>(ms: number, work: Promise<T>): Promise<T | 'late'> {
  return await new Promise((resolve, reject) => {
    // After a turn in which this process was busy, the timer comes before the answer that has long arrived: one more
    // look at the sockets before it is late.
    const timer = setTimeout(() => setImmediate(() => resolve('late')), ms);
    work.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}
