/** So many failures in a row open the circuit. */
const failuresToOpen = 3;

export interface CircuitEvents {
  opened: (reason: string) => void;
  /** With how long it was open, in ms. */
  closed: (openMs: number) => void;
}

/**
 * A circuit breaker: closed, questions are asked; open, they are not. It tells once that it opened and once that it
 * closed again, so that an outage is one warning however many requests meet it. When to look again is up to the owner.
 */
export class Circuit {
  readonly #events: CircuitEvents;
  #failures = 0;
  #failedAt = -Infinity;
  #openSince: number | null = null;

  constructor(events: CircuitEvents) {
    this.#events = events;
  }

  get isOpen(): boolean {
    return this.#openSince !== null;
  }

  succeeded(): void {
    this.#failures = 0;
  }

  /**
   * Questions that were under way together fail together and count as one failure: otherwise one slow moment under
   * load would look like an outage. `startedAt` is by `performance.now()`.
   */
  failed(startedAt: number, reason: string): void {
    if (startedAt < this.#failedAt) return;
    this.#failedAt = performance.now();
    this.#failures += 1;
    if (this.#failures >= failuresToOpen) this.open(reason);
  }

  open(reason: string): void {
    if (this.#openSince !== null) return;
    this.#openSince = performance.now();
    this.#events.opened(reason);
  }

  close(): void {
    if (this.#openSince === null) return;
    const openMs = performance.now() - this.#openSince;
    this.#openSince = null;
    this.#failures = 0;
    this.#events.closed(openMs);
  }
}
