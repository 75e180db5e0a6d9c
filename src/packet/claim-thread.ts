import { Worker } from 'node:worker_threads';
import type { DatabaseEvents } from '../database/database.ts';
import { busy, Refusal } from '../refusal.ts';
import {
  unpackError,
  unpackOutcomes,
  type FromThread,
  type ThreadData,
  type ToThread,
} from './claim-messages.ts';
import type { Claim } from './grab.ts';
import type { GrabOutcome } from './packet.ts';

export interface ClaimThreadOptions {
  databaseUrl: string;
  /** Its connections: as many transactions may run at once. */
  poolSize: number;
  events: DatabaseEvents;
  /** Hears when the thread broke, which is a fault of ours. */
  broke: (error: unknown) => void;
  /** Is given each thread that is started: in tests, to break it. */
  started?: (worker: Worker) => void;
}

/** How long a thread that broke rests before it is started again. */
const restartMs = 500;

interface Pending {
  packetIds: readonly string[];
  resolve: (outcomes: (GrabOutcome[] | null)[]) => void;
  reject: (error: unknown) => void;
}

/**
 * Runs the transactions of grabs in a thread of their own. Between two round trips a transaction holds its packet's lock;
 * on the thread that serves HTTP the database's answer would wait there for its turn behind whatever requests have just
 * come in, which are the more the hotter the packet is. Measured with 256 connections on MySQL 9.7: a batch of 128 held its packet for 32 ms
 * instead of 23.
 */
export class ClaimThread {
  readonly #options: ClaimThreadOptions;
  readonly #pending = new Map<number, Pending>();
  #worker: Worker | null = null;
  #nextId = 0;
  #closing = false;
  #ended: Promise<void> = Promise.resolve();
  #restart: NodeJS.Timeout | null = null;

  private constructor(options: ClaimThreadOptions) {
    this.#options = options;
  }

  /** Rejects when the thread cannot reach the database. */
  static async start(options: ClaimThreadOptions): Promise<ClaimThread> {
    const thread = new ClaimThread(options);
    await thread.#start();
    return thread;
  }

  /** One batch in one transaction; as `claimIn`, elsewhere. */
  readonly claim: Claim = async (lots) => {
    const worker = this.#worker;
    if (worker === null) throw busy('The service restarts a part of itself.');
    const id = this.#nextId;
    this.#nextId += 1;
    const packetIds = lots.map(({ packetId }) => packetId);
    return await new Promise((resolve, reject) => {
      this.#pending.set(id, { packetIds, resolve, reject });
      // A thread has no origin.
      // oxlint-disable-next-line unicorn/require-post-message-target-origin
      worker.postMessage({ kind: 'claim', id, lots } satisfies ToThread);
    });
  };

  /** Ends the thread, after what runs, within the deadline. */
  async close(deadlineMs: number): Promise<void> {
    this.#closing = true;
    if (this.#restart !== null) clearTimeout(this.#restart);
    const worker = this.#worker;
    if (worker === null) return;
    // oxlint-disable-next-line unicorn/require-post-message-target-origin
    worker.postMessage({ kind: 'close', deadlineMs } satisfies ToThread);
    const cut = setTimeout(() => void worker.terminate(), deadlineMs + 500);
    await this.#ended;
    clearTimeout(cut);
  }

  async #start(): Promise<void> {
    const { databaseUrl, poolSize } = this.#options;
    const worker = newWorker({ databaseUrl, poolSize });
    this.#options.started?.(worker);
    let failure: unknown = new Error('the thread of the grabs ended');
    worker.once('error', (error) => (failure = error));
    await new Promise<void>((resolve, reject) => {
      worker.on('message', (message: FromThread) => {
        if (message.kind === 'ready') {
          // Closed while it was started again: nobody would end it.
          if (this.#closing) void worker.terminate();
          else this.#worker = worker;
          resolve();
        } else this.#hear(message);
      });
      this.#ended = new Promise((ended) => {
        worker.once('exit', () => {
          const wasUp = this.#worker === worker;
          if (wasUp) this.#worker = null;
          if (!this.#closing && wasUp) this.#broke(failure);
          reject(failure instanceof Error ? failure : new Error(String(failure)));
          ended();
        });
      });
    });
  }

  #broke(failure: unknown): void {
    this.#options.broke(failure);
    const cause = failure;
    for (const { reject } of this.#pending.values())
      reject(
        new Refusal('BUSY', {
          detail:
            'A part of the service failed during this request, so its outcome is not known. Repeat it: that tells the result.',
          retryAfterSeconds: 1,
          cause,
        }),
      );
    this.#pending.clear();
    this.#startAgain();
  }

  #startAgain(): void {
    this.#restart = setTimeout(() => {
      this.#start().catch((error: unknown) => {
        this.#options.broke(error);
        if (!this.#closing) this.#startAgain();
      });
    }, restartMs);
  }

  #hear(message: Exclude<FromThread, { kind: 'ready' }>): void {
    if (message.kind === 'retried') {
      this.#options.events.retried?.(message.unit, message.cause);
      return;
    }
    if (message.kind === 'finished') {
      this.#options.events.finished?.(message.unit, message.seconds, message.outcome);
      return;
    }
    const pending = this.#pending.get(message.id);
    if (pending === undefined) return;
    this.#pending.delete(message.id);
    if (message.kind === 'claimed') pending.resolve(unpackOutcomes(pending.packetIds, message.packed));
    else if (message.kind === 'refused') pending.reject(new Refusal(message.code, message.details));
    else pending.reject(unpackError(message.fields));
  }
}

function newWorker(workerData: ThreadData): Worker {
  if (import.meta.url.endsWith('.js'))
    return new Worker(new URL('claim-worker.js', import.meta.url), { workerData });
  // From the sources, as tests run them: a thread knows nothing of the loader that its process was started with.
  const file = new URL('claim-worker.ts', import.meta.url).href;
  const code = `import('tsx/esm/api').then(({ register }) => { register(); return import(${JSON.stringify(file)}); });`;
  return new Worker(code, { eval: true, workerData });
}
