import { fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { compiledName } from './processes.ts';

/** What to send, and how. Everything in it is plain data: it goes to a process of its own. */
export interface LoadPlan {
  host?: string;
  port: number;
  connections: number;
  /** Before the window that is measured, on the same connections. */
  warmupSeconds: number;
  seconds: number;
  /**
   * closed: each connection sends its next request when its answer came. Open, with a rate: requests are due at
   * fixed times whatever the server does; one that finds no connection free waits here, and its latency counts from
   * the time when it was due.
   */
  mode: 'closed' | { ratePerSecond: number };
  method?: string;
  /** Request n goes to the n-th path; after the last comes the first. ASCII. */
  paths: readonly string[];
  /** Request n comes from user `prefix + (from + n)`; with `count`, `prefix + (from + n mod count)`. ASCII. */
  users: { prefix: string; from?: number; count?: number };
  /** `{user}` stands for the user. */
  body?: string;
  headers?: Readonly<Record<string, string>>;
  /** Bodies of so many answers are kept as text, the first ones of the window. */
  samples?: number;
  /** How long after the window answers are waited for; what is still missing then is an error. */
  drainSeconds?: number;
}

/** Durations in milliseconds, of the requests that were sent (open: due) within the window. */
export interface LoadResult {
  seconds: number;
  /** Requests that were sent (open: due) within the window. */
  requests: number;
  /** Answers of any status that came within the window, for each second. */
  perSecond: number;
  byStatus: Record<string, number>;
  p50: number;
  p90: number;
  p99: number;
  p999: number;
  max: number;
  /** Requests of the window without a whole answer: connections that broke or could not be made, answers that never came. */
  errors: number;
  errorCodes: Record<string, number>;
  /** User and system time of the generator within the window. */
  cpuSeconds: number;
  /** Open loop: how late the generator itself looked at what was due. It is part of the latencies. */
  generatorLate: { p50: number; p99: number; max: number } | null;
  samples: { status: number; body: string }[];
  /** How many users were used up, counted from `users.from`, warm-up included. */
  usersUsed: number;
}

/** What is told while it runs: for measuring others over the same window. */
export interface LoadEvents {
  began?: () => void;
  ended?: () => void;
}

export type LoadMessage = 'ready' | 'began' | 'ended' | { result: LoadResult } | { error: string };

/**
 * Runs a load from a process of its own and returns what it saw. Rejects when the server cannot be reached at the
 * start, or when the generator ends early; broken connections later are counted in the result.
 */
export async function runLoad(plan: LoadPlan, events: LoadEvents = {}): Promise<LoadResult> {
  const worker = fork(fileURLToPath(new URL(compiledName('load-worker.ts'), import.meta.url)), [], {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
  const endWithUs = (): void => void worker.kill();
  process.once('exit', endWithUs);
  try {
    return await new Promise<LoadResult>((resolve, reject) => {
      worker.on('message', (message: LoadMessage) => {
        if (message === 'ready') worker.send(plan);
        else if (message === 'began') events.began?.();
        else if (message === 'ended') events.ended?.();
        else if ('result' in message) resolve(message.result);
        else reject(new Error(message.error));
      });
      worker.once('error', reject);
      worker.once('exit', (code, signal) =>
        reject(new Error(`the load generator ended early (${signal ?? code})`)),
      );
    });
  } finally {
    process.off('exit', endWithUs);
    worker.kill();
  }
}
