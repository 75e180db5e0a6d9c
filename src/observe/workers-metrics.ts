import type { Worker } from 'node:cluster';
import { AggregatorRegistry, Counter, Registry } from 'prom-client';
import { addGauge, Metrics } from './metrics.ts';

/**
 * A scrape reaches any one worker and must tell the sum of all. So the worker asks the parent, the parent asks every
 * worker, and adds up. prom-client's own `clusterMetrics()` does the asking too, but fails as a whole when one worker
 * dies meanwhile; only its adding up is used here.
 */

/** How long the parent waits for a worker; what that worker told last is taken in its stead. */
const tellWaitMs = 1_000;
/** How long a worker waits for the parent, before it tells its own metrics alone. */
const scrapeWaitMs = 2_500;

/** A worker's metrics as `getMetricsAsJSON` gives them. */
type Snapshot = readonly { type: unknown }[];

type Message =
  /** Worker to parent, and back: the metrics of all, please. */
  | { metrics: 'scrape'; id: number }
  | { metrics: 'scraped'; id: number; text: string }
  /** Parent to worker, and back: your own, please. Without an id when nobody asked. */
  | { metrics: 'tell'; id: number }
  | { metrics: 'told'; id: number | null; snapshot: Snapshot };

/** Others send messages over the same channel. */
function isOurs(message: unknown): message is Message {
  return typeof message === 'object' && message !== null && 'metrics' in message;
}

/** Questions that wait for their answers, each for a bounded time. */
class Questions<Answer> {
  readonly #waiting = new Map<number, (answer: Answer) => void>();
  #last = 0;

  /** Null when no answer came in time, or the question could not be sent. */
  async ask(waitMs: number, send: (id: number, failed: () => void) => void): Promise<Answer | null> {
    const id = ++this.#last;
    let timer: NodeJS.Timeout | undefined;
    const answer = await new Promise<Answer | null>((resolve) => {
      this.#waiting.set(id, resolve);
      timer = setTimeout(() => resolve(null), waitMs);
      send(id, () => resolve(null));
    });
    clearTimeout(timer);
    this.#waiting.delete(id);
    return answer;
  }

  answered(id: number, answer: Answer): void {
    this.#waiting.get(id)?.(answer);
  }
}

/** In a worker: its own metrics, and a scrape that tells those of all workers. */
export class WorkerMetrics extends Metrics {
  readonly #scrapes = new Questions<string>();

  constructor() {
    super();
    process.on('message', (message: unknown) => {
      if (!isOurs(message)) return;
      if (message.metrics === 'scraped') this.#scrapes.answered(message.id, message.text);
      if (message.metrics === 'tell') void this.#tell(message.id);
    });
  }

  /** The sum of all workers; this worker's own metrics when the parent does not answer. */
  override async text(): Promise<string> {
    const all = await this.#scrapes.ask(scrapeWaitMs, (id, failed) =>
      sendToParent({ metrics: 'scrape', id }, failed),
    );
    return all ?? (await super.text());
  }

  /** Before this worker ends: so that what it counted last is not lost from the sum. */
  async leave(): Promise<void> {
    await this.#tell(null);
  }

  async #tell(id: number | null): Promise<void> {
    const snapshot = (await this.registry.getMetricsAsJSON()) as Snapshot;
    await new Promise<void>((resolve) => sendToParent({ metrics: 'told', id, snapshot }, resolve, resolve));
  }
}

function sendToParent(message: Message, failed: () => void, sent: () => void = () => {}): void {
  if (process.send === undefined || !process.connected) failed();
  else process.send(message, undefined, undefined, (error) => (error === null ? sent() : failed()));
}

/** In the parent: the metrics of all workers as one text, with the parent's own about them. */
export class MetricsOfWorkers {
  readonly #own = new Registry();
  readonly #serving: () => readonly Worker[];
  readonly #tells = new Questions<null>();
  /** What each living worker told last. */
  readonly #last = new Map<Worker, Snapshot>();
  /** What dead workers counted, as far as they told: a sum that fell would look like a restart of all. */
  readonly #departed: Snapshot[] = [];
  #running: Promise<unknown> = Promise.resolve();
  #next: Promise<string> | null = null;
  readonly restarts: Counter;

  /** `serving` lists the workers that serve now. */
  constructor(serving: () => readonly Worker[]) {
    this.#serving = serving;
    const registers = [this.#own];
    this.restarts = new Counter({
      name: 'luckyledger_worker_restarts_total',
      help: 'Workers that ended unasked and were started again.',
      registers,
    });
    addGauge(this.#own, 'luckyledger_workers_alive', 'Workers that serve.', () => serving().length);
    // The first is the parent's own: a sum of start times would be nonsense.
    addGauge(
      this.#own,
      'process_start_time_seconds',
      'Start of the service, in seconds since 1970.',
      () => Math.round(performance.timeOrigin / 1000),
      'first',
    );
  }

  /** Listens to a new worker, and keeps its counts when it ends. */
  add(worker: Worker): void {
    worker.on('message', (message: unknown) => {
      if (!isOurs(message)) return;
      if (message.metrics === 'told') {
        this.#last.set(worker, message.snapshot);
        if (message.id !== null) this.#tells.answered(message.id, null);
      }
      if (message.metrics === 'scrape') void this.#answer(worker, message.id);
    });
    // What it told last is read first.
    worker.once('exit', () => setImmediate(() => this.#depart(worker)));
  }

  #depart(worker: Worker): void {
    const snapshot = this.#last.get(worker) ?? [];
    this.#last.delete(worker);
    const counts = snapshot.filter(({ type }) => type === 'counter' || type === 'histogram');
    if (counts.length > 0) this.#departed.push(counts);
  }

  async #answer(worker: Worker, id: number): Promise<void> {
    const text = await this.#text();
    // A worker that is gone needs no answer.
    if (worker.isConnected()) worker.send({ metrics: 'scraped', id, text } satisfies Message, () => {});
  }

  /** One gathering at a time. Whoever asks meanwhile shares the next one, which will have counted what came before. */
  async #text(): Promise<string> {
    this.#next ??= this.#running.then(async () => {
      this.#next = null;
      const gathering = this.#gather();
      this.#running = gathering.catch(() => {});
      return await gathering;
    });
    return await this.#next;
  }

  async #gather(): Promise<string> {
    await Promise.all(this.#serving().map(async (worker) => await this.#ask(worker)));
    const own = (await this.#own.getMetricsAsJSON()) as Snapshot;
    const departed = [...this.#departed];
    const text = await added([own, ...departed, ...this.#last.values()]).metrics();
    if (departed.length > 1) {
      const one = (await added(departed).getMetricsAsJSON()) as Snapshot;
      // More may have come meanwhile.
      this.#departed.splice(0, departed.length, one);
    }
    return text;
  }

  async #ask(worker: Worker): Promise<void> {
    await this.#tells.ask(tellWaitMs, (id, failed) => {
      const gone = !worker.isConnected();
      if (gone) failed();
      else
        worker.send({ metrics: 'tell', id } satisfies Message, (error) => void (error === null || failed()));
    });
  }
}

function added(snapshots: readonly Snapshot[]): Registry {
  return AggregatorRegistry.aggregate([...snapshots]);
}
