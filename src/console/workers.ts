import cluster, { type Worker } from 'node:cluster';
import { once } from 'node:events';
import { createServer } from 'node:net';
import type { Logger } from '../observe/log.ts';
import { MetricsOfWorkers } from '../observe/workers-metrics.ts';
import { HandOver } from './hand-over.ts';
import { isServing } from './worker-process.ts';

/** A worker that ends within this time of its start has ended early: its next start waits, each time longer. */
const earlyMs = 30_000;
const firstRestMs = 250;
const longestRestMs = 10_000;

/** The place of one worker: whoever dies is followed by another in the same place. */
interface Place {
  worker: Worker | null;
  startedMs: number;
  serving: boolean;
  /** How often in a row a worker of this place ended early. */
  earlyEnds: number;
  restart: NodeJS.Timeout | null;
}

/** How a worker ended: by a code, or by a signal; neither where the system would not start it. */
interface End {
  workerPid: number | undefined;
  exitCode: number | null;
  signal: string | null;
}
const notStarted: End = { workerPid: undefined, exitCode: null, signal: null };

/**
 * The parent of several worker processes on one port: starts them, restarts the one that dies, and ends them. They
 * run the same command line as the parent, and Node's options of it; what is secret comes in their environment.
 */
export class Workers {
  readonly #places: readonly Place[];
  readonly #environment: Readonly<Record<string, string>>;
  readonly #log: Logger;
  readonly #metrics: MetricsOfWorkers;
  readonly #handOver = new HandOver();
  readonly #begun: Promise<string>;
  #settleBegun: { resolve: (address: string) => void; reject: (error: Error) => void } | null = null;
  #ended: Promise<boolean> | null = null;
  #inGoodOrder = true;
  #goneOn: () => void = () => {};

  /** `environment` is what the workers are given over the parent's own: see `serveAsWorker`. */
  constructor(count: number, environment: Readonly<Record<string, string>>, log: Logger) {
    this.#places = Array.from({ length: count }, () => ({
      worker: null,
      startedMs: 0,
      serving: false,
      earlyEnds: 0,
      restart: null,
    }));
    this.#environment = environment;
    this.#log = log;
    this.#metrics = new MetricsOfWorkers(() =>
      this.#places.flatMap(({ worker, serving }) => (worker !== null && serving ? [worker] : [])),
    );
    this.#begun = new Promise((resolve, reject) => (this.#settleBegun = { resolve, reject }));
  }

  /**
   * Resolves with the common address when all workers serve. Rejects when one ends before it served: what it stumbled
   * over, the next would too. The caller then closes.
   */
  async start(): Promise<string> {
    // The system's own distribution would give one worker most of the connections.
    cluster.schedulingPolicy = cluster.SCHED_RR;
    for (const place of this.#places) this.#fork(place);
    return await this.#begun;
  }

  /** Tells all to finish what runs; kills who is not done at the deadline. True when all ended in good order. */
  async close(deadlineMs: number): Promise<boolean> {
    this.#ended ??= this.#end(deadlineMs);
    return await this.#ended;
  }

  async #end(deadlineMs: number): Promise<boolean> {
    for (const place of this.#places) if (place.restart !== null) clearTimeout(place.restart);
    const gone = new Promise<void>((resolve) => (this.#goneOn = resolve));
    this.#signal('SIGTERM');
    const kill = setTimeout(() => {
      this.#inGoodOrder = false;
      this.#log.warn('workers did not finish in time and are killed', { pids: this.#signal('SIGKILL') });
    }, deadlineMs);
    if (this.#anyLeft()) await gone;
    clearTimeout(kill);
    return this.#inGoodOrder;
  }

  #signal(signal: NodeJS.Signals): number[] {
    const left = this.#places.flatMap(({ worker }) => (worker === null ? [] : [worker.process]));
    for (const child of left) child.kill(signal);
    return left.flatMap(({ pid }) => pid ?? []);
  }

  #anyLeft(): boolean {
    return this.#places.some(({ worker }) => worker !== null);
  }

  #fork(place: Place): void {
    place.startedMs = performance.now();
    place.restart = null;
    try {
      const worker = cluster.fork(this.#environment);
      place.worker = worker;
      // A process that the system would not start has no exit. Other errors are messages to one that is dying.
      worker.on('error', () => {
        if (worker.process.pid === undefined) this.#over(place, notStarted);
      });
      worker.once('exit', (exitCode: number | null, signal: string | null) =>
        this.#over(place, { workerPid: worker.process.pid, exitCode, signal }),
      );
      this.#handOver.watch(worker);
      this.#metrics.add(worker);
      worker.on('message', (message: unknown) => {
        if (isServing(message)) this.#serves(place, worker, message.serving);
      });
    } catch {
      this.#over(place, notStarted);
    }
  }

  #serves(place: Place, worker: Worker, address: string): void {
    place.serving = true;
    this.#log.info('a worker serves', { workerPid: worker.process.pid });
    if (this.#settleBegun === null || !this.#places.every(({ serving }) => serving)) return;
    this.#settleBegun.resolve(address);
    this.#settleBegun = null;
  }

  /** A worker has ended: asked, before it served, or unasked. */
  #over(place: Place, end: End): void {
    const served = place.serving;
    place.worker = null;
    place.serving = false;
    if (this.#ended !== null) {
      if ((end.exitCode ?? 0) !== 0) this.#inGoodOrder = false;
      if (!this.#anyLeft()) this.#goneOn();
      return;
    }
    if (!served && this.#settleBegun !== null) {
      const how =
        end.signal ?? (end.exitCode === null ? 'could not be started' : `exit code ${end.exitCode}`);
      this.#settleBegun.reject(new Error(`A worker ended before it served (${how}).`));
      return;
    }
    this.#restart(place, end);
  }

  #restart(place: Place, end: End): void {
    place.earlyEnds = performance.now() - place.startedMs < earlyMs ? place.earlyEnds + 1 : 0;
    const restMs =
      place.earlyEnds === 0 ? 0 : Math.min(firstRestMs * 2 ** (place.earlyEnds - 1), longestRestMs);
    this.#log.warn('a worker ended and will be started again', { ...end, restMs });
    this.#metrics.restarts.inc();
    place.restart = setTimeout(() => this.#fork(place), restMs);
  }
}

/**
 * The port that the workers will share: the wanted one, or for 0 any free one. A number is needed beforehand: workers
 * that listen on 0 share a port only while one of them lives. Rejects when the port cannot be had, before any start.
 */
export async function commonPort(host: string, wanted: number): Promise<number> {
  const probe = createServer().listen(wanted, host);
  await once(probe, 'listening');
  const address = probe.address();
  probe.close();
  await once(probe, 'close');
  if (address === null || typeof address === 'string') throw new Error('no port');
  return address.port;
}
