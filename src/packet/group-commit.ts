import { busy, Refusal } from '../refusal.ts';

export interface GroupLimits {
  /** How many requests may wait for one key. */
  queueLength: number;
  /** How many requests may wait in all. */
  totalLength: number;
  /** How many requests go into one transaction, at the most, of all its keys together. */
  batchSize: number;
  /** A crowd larger than this takes turns in two halves; a smaller one is not worth two commits. */
  splitAbove: number;
  /** How long a request may wait before its transaction begins. */
  waitMs: number;
  /** How many transactions may run at once. */
  batchesInFlight: number;
}

export const defaultGroupLimits: GroupLimits = {
  queueLength: 4_096,
  totalLength: 16_384,
  batchSize: 256,
  splitAbove: 96,
  waitMs: 5_000,
  batchesInFlight: 8,
};

const answersAtOnce = 16;

interface Waiting<Request, Result> {
  request: Request;
  since: number;
  resolve: (result: Result) => void;
  reject: (reason: unknown) => void;
}

interface Queue<Request, Result> {
  key: string;
  waiting: Waiting<Request, Result>[];
  running: boolean;
  /** How many of them ran last. */
  lastSize: number;
  /** Somebody else held the key when it was to run with others: next time it runs, and waits, alone. */
  alone: boolean;
}

/** The requests of one key in a batch, in order of arrival. */
export interface Lot<Request> {
  key: string;
  requests: Request[];
}

/**
 * Runs these lots in one transaction and returns their results in the same order. Null for a lot of several: nothing was
 * done, since somebody else holds its key; it will come again, alone.
 */
export type RunBatch<Request, Result> = (
  lots: readonly Lot<Request>[],
) => Promise<readonly (Result[] | null)[]>;

interface Part<Request, Result> {
  queue: Queue<Request, Result>;
  waiting: Waiting<Request, Result>[];
}

export interface GroupObserver {
  batch?: (size: number, oldestWaitMs: number) => void;
}

/**
 * Group commit: requests that arrive while the transactions that may run at once are running wait together and go into the
 * next one: those of one key in order, and behind them those of other keys that wait too. There is no timer on the way
 * in: an idle key's request starts at once, alone, in a batch of one (with whoever arrives in the same turn of the event loop).
 * Keys that have work stand in one line and each gets one lot per turn, so a hot key starves no other. A key is in one
 * transaction at a time.
 *
 * When `runBatch` throws a BUSY, the whole batch is told so. Any other error splits the batch in halves until the one bad
 * request is alone; so `runBatch` must write all or nothing.
 *
 * Everything has a limit; past one the request is refused with BUSY and nothing was written for it.
 */
export class GroupCommit<Request, Result> {
  readonly #runBatch: RunBatch<Request, Result>;
  readonly #limits: GroupLimits;
  readonly #observer: GroupObserver;
  readonly #queues = new Map<string, Queue<Request, Result>>();
  /** Keys with waiting requests and no transaction, longest waiting first. */
  readonly #line = new Set<Queue<Request, Result>>();
  #inFlight = 0;
  /** Requests in a transaction, or with an answer that is on its way to them. */
  #undelivered = 0;
  #waitingCount = 0;
  #closed = false;
  #startScheduled = false;
  #sweep: NodeJS.Timeout | null = null;
  #whenIdle: (() => void) | null = null;

  constructor(
    runBatch: RunBatch<Request, Result>,
    limits: Partial<GroupLimits> = {},
    observer: GroupObserver = {},
  ) {
    this.#runBatch = runBatch;
    this.#limits = { ...defaultGroupLimits, ...limits };
    this.#observer = observer;
  }

  get waiting(): number {
    return this.#waitingCount;
  }

  async submit(key: string, request: Request): Promise<Result> {
    if (this.#closed) throw busy('The service is shutting down.');
    let queue = this.#queues.get(key);
    if (
      this.#waitingCount >= this.#limits.totalLength ||
      (queue !== undefined && queue.waiting.length >= this.#limits.queueLength)
    ) {
      throw busy('Too many requests wait.');
    }
    if (queue === undefined) {
      queue = { key, waiting: [], running: false, lastSize: 0, alone: false };
      this.#queues.set(key, queue);
    }
    const { waiting } = queue;
    const answer = new Promise<Result>((resolve, reject) => {
      waiting.push({ request, since: performance.now(), resolve, reject });
    });
    this.#waitingCount += 1;
    if (!queue.running) this.#line.add(queue);
    this.#startSoon();
    this.#sweep ??= setInterval(() => this.#refuseOld(), 50);
    return await answer;
  }

  /** Takes no more, and resolves when all that wait have their answer. */
  async close(): Promise<void> {
    this.#closed = true;
    if (this.#waitingCount + this.#inFlight + this.#undelivered === 0) return;
    await new Promise<void>((resolve) => {
      this.#whenIdle = resolve;
    });
  }

  /**
   * At the end of this turn of the event loop, so that requests which arrive in the same turn share a transaction.
   * Starting within `submit` made batches of 1 and 63 take turns where 64 callers each wait for their answer.
   */
  #startSoon(): void {
    if (this.#startScheduled || this.#line.size === 0) return;
    this.#startScheduled = true;
    setImmediate(() => {
      this.#startScheduled = false;
      this.#startNext();
    });
  }

  #startNext(): void {
    while (this.#line.size > 0 && this.#inFlight < this.#limits.batchesInFlight)
      void this.#run(this.#nextBatch());
  }

  /** From the front of the line: one key's lot, and the lots of those behind it as long as they have room. */
  #nextBatch(): Part<Request, Result>[] {
    const parts: Part<Request, Result>[] = [];
    let room = this.#limits.batchSize;
    for (const queue of this.#line) {
      if (queue.alone && parts.length > 0) continue;
      const size = Math.min(queue.waiting.length, this.#sizeOfNext(queue));
      if (size > room) break;
      room -= size;
      this.#line.delete(queue);
      queue.running = true;
      queue.lastSize = size;
      parts.push({ queue, waiting: queue.waiting.splice(0, size) });
      if (queue.alone) break;
    }
    return parts;
  }

  async #run(parts: readonly Part<Request, Result>[]): Promise<void> {
    const size = sizeOf(parts);
    this.#inFlight += 1;
    this.#waitingCount -= size;
    this.#undelivered += size;
    const oldest = Math.min(...parts.map(({ waiting }) => waiting[0]?.since ?? Infinity));
    this.#observer.batch?.(size, performance.now() - oldest);
    for (const { queue } of parts) queue.alone = false;
    const answers = await this.#settle(parts);
    this.#inFlight -= 1;
    for (const { queue } of parts) {
      queue.running = false;
      // At the end of the line: whoever waited meanwhile comes first.
      if (queue.waiting.length > 0) this.#line.add(queue);
      else this.#queues.delete(queue.key);
    }
    // The next transaction first, then the answers to this one: making them takes long enough for the database to idle.
    this.#startNext();
    this.#deliver(answers);
  }

  /**
   * A crowd is split in two halves that take turns: one is in its transaction while the other gets its answers and comes
   * again, so that neither the database nor this process waits for the other. `lastSize` are about to come again.
   */
  #sizeOfNext({ waiting, lastSize }: Queue<Request, Result>): number {
    const half = Math.ceil((waiting.length + lastSize) / 2);
    return Math.min(this.#limits.batchSize, Math.max(this.#limits.splitAbove, half));
  }

  /** A few answers in each turn of the event loop, so that the running transactions need not wait for all of them. */
  #deliver(answers: readonly (() => void)[]): void {
    for (const answer of answers.slice(0, answersAtOnce)) answer();
    const rest = answers.slice(answersAtOnce);
    this.#undelivered -= answers.length - rest.length;
    if (rest.length > 0) setImmediate(() => this.#deliver(rest));
    else this.#restIfIdle();
  }

  /** Runs the batch, in halves if it must be, and returns what is to be told to each. */
  async #settle(parts: readonly Part<Request, Result>[]): Promise<(() => void)[]> {
    const size = sizeOf(parts);
    if (size === 0) return [];
    try {
      const results = await this.#runBatch(
        parts.map(({ queue, waiting }) => ({
          key: queue.key,
          requests: waiting.map(({ request }) => request),
        })),
      );
      if (results.length !== parts.length)
        throw new Error(`${results.length} results for ${parts.length} lots`);
      return parts.flatMap((part, index) => this.#answersTo(part, results[index] ?? null));
    } catch (error) {
      const everybody = error instanceof Refusal && error.code === 'BUSY';
      if (everybody || size === 1)
        return parts.flatMap(({ waiting }) =>
          waiting.map(
            ({ reject }) =>
              () =>
                reject(error),
          ),
        );
      const [first, second] = halvesOf(parts);
      return [...(await this.#settle(first)), ...(await this.#settle(second))];
    }
  }

  #answersTo({ queue, waiting }: Part<Request, Result>, results: readonly Result[] | null): (() => void)[] {
    if (results === null) {
      // Back to the front: nobody of the same key overtakes them.
      queue.waiting.unshift(...waiting);
      queue.alone = true;
      this.#waitingCount += waiting.length;
      this.#undelivered -= waiting.length;
      return [];
    }
    if (results.length !== waiting.length)
      throw new Error(`${results.length} results for ${waiting.length} requests`);
    return waiting.map(
      ({ resolve }, index) =>
        () =>
          resolve(results[index] as Result),
    );
  }

  /** Queues are in order of arrival, so only their heads need a look. */
  #refuseOld(): void {
    const oldest = performance.now() - this.#limits.waitMs;
    for (const queue of this.#queues.values()) {
      let old = 0;
      while ((queue.waiting[old]?.since ?? Infinity) < oldest) old += 1;
      for (const { reject } of queue.waiting.splice(0, old)) reject(busy('The request waited too long.'));
      this.#waitingCount -= old;
      if (queue.waiting.length === 0 && !queue.running) {
        this.#line.delete(queue);
        this.#queues.delete(queue.key);
      }
    }
    this.#restIfIdle();
  }

  #restIfIdle(): void {
    if (this.#waitingCount > 0) return;
    if (this.#sweep !== null) clearInterval(this.#sweep);
    this.#sweep = null;
    if (this.#inFlight === 0 && this.#undelivered === 0) this.#whenIdle?.();
  }
}

function sizeOf(parts: readonly Part<unknown, never>[]): number {
  return parts.reduce((sum, { waiting }) => sum + waiting.length, 0);
}

/** Two batches of about the same size: between two lots, or, of one lot, between two requests. */
function halvesOf<Request, Result>(
  parts: readonly Part<Request, Result>[],
): [Part<Request, Result>[], Part<Request, Result>[]] {
  const [only] = parts;
  if (parts.length > 1 || only === undefined) {
    const half = parts.length >> 1;
    return [parts.slice(0, half), parts.slice(half)];
  }
  const half = only.waiting.length >> 1;
  return [
    [{ ...only, waiting: only.waiting.slice(0, half) }],
    [{ ...only, waiting: only.waiting.slice(half) }],
  ];
}
