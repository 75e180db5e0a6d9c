/**
 * The loop around a worker's `runOnce()`: run, rest, repeat, until stopped. A failed run is reported and tried
 * again after the rest; `stop()` interrupts the rest and waits for the run.
 */
export class Worker {
  readonly #runOnce: () => Promise<unknown>;
  readonly #restMs: number;
  readonly #failed: (error: unknown) => void;
  readonly #loop: Promise<void>;
  #stopped = false;
  #wake: (() => void) | null = null;

  constructor(runOnce: () => Promise<unknown>, restMs: number, failed: (error: unknown) => void) {
    this.#runOnce = runOnce;
    this.#restMs = restMs;
    this.#failed = failed;
    this.#loop = this.#run();
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    this.#wake?.();
    await this.#loop;
  }

  async #run(): Promise<void> {
    while (!this.#stopped) {
      try {
        await this.#runOnce();
      } catch (error) {
        this.#failed(error);
      }
      if (this.#stopped) return;
      await new Promise<void>((resolve) => {
        // Jitter, so that the sweepers of several processes do not march in step.
        const timer = setTimeout(resolve, this.#restMs * (0.75 + Math.random() / 2));
        this.#wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
  }
}
