import { busy, type Refusal } from '../refusal.ts';

export interface AdmissionLimits {
  /** How many may be inside at once. */
  slots: number;
  /** How many may wait. */
  queueLength: number;
  /** How long one waits before it is turned away. */
  queueWaitMs: number;
}

interface Waiter {
  admit: () => void;
  refuse: (reason: Refusal) => void;
  timer: NodeJS.Timeout;
}

/**
 * The bounded gate in front of the pool. The driver's own pool would let a request wait for ever; here it waits
 * in order of arrival, for a stated time, and is then refused with BUSY (nothing was written).
 */
export class Admission {
  readonly #limits: AdmissionLimits;
  readonly #waiting = new Set<Waiter>();
  #inside = 0;
  #closed = false;
  #whenEmpty: (() => void) | null = null;

  constructor(limits: AdmissionLimits) {
    this.#limits = limits;
  }

  get inside(): number {
    return this.#inside;
  }

  get waiting(): number {
    return this.#waiting.size;
  }

  /** Resolves when the caller is inside; it must call `leave()` once. Refuses with BUSY. */
  async enter(): Promise<void> {
    if (this.#closed) throw busy('The service is shutting down.');
    if (this.#inside < this.#limits.slots) {
      this.#inside += 1;
      return;
    }
    if (this.#waiting.size >= this.#limits.queueLength)
      throw busy('Too many requests wait for the database.');
    await new Promise<void>((resolve, reject) => {
      const waiter: Waiter = {
        admit: resolve,
        refuse: reject,
        timer: setTimeout(() => {
          this.#waiting.delete(waiter);
          reject(busy('The database is busy.'));
        }, this.#limits.queueWaitMs),
      };
      this.#waiting.add(waiter);
    });
  }

  leave(): void {
    const [next] = this.#waiting;
    if (next !== undefined) {
      // The slot passes on: `inside` stays as it is.
      this.#waiting.delete(next);
      clearTimeout(next.timer);
      next.admit();
      return;
    }
    this.#inside -= 1;
    if (this.#inside === 0) this.#whenEmpty?.();
  }

  /** Refuses who waits, admits nobody, and resolves when all have left or the deadline has passed. */
  async close(deadlineMs: number): Promise<void> {
    this.#closed = true;
    for (const waiter of this.#waiting) {
      clearTimeout(waiter.timer);
      waiter.refuse(busy('The service is shutting down.'));
    }
    this.#waiting.clear();
    if (this.#inside === 0) return;
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, deadlineMs);
      this.#whenEmpty = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}
