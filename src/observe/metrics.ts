import { Counter, Gauge, Histogram, Registry, collectDefaultMetrics, type Aggregator } from 'prom-client';
import type { DatabaseEvents } from '../database/database.ts';

const millisecondsToSeconds = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5];

/** Every metric of the service, with its name and labels in one place. */
export class Metrics {
  readonly registry = new Registry();
  readonly requests = this.counter('luckyledger_http_requests_total', 'Requests by route and status.', [
    'route',
    'status',
  ]);
  readonly requestSeconds = this.histogram(
    'luckyledger_http_request_seconds',
    'Time from the request to its answer.',
    millisecondsToSeconds,
    ['route'],
  );
  readonly grabs = this.counter(
    'luckyledger_grabs_total',
    'Grabs by outcome: granted, already_granted, or the code of the refusal.',
    ['outcome'],
  );
  readonly batchSize = this.histogram(
    'luckyledger_grab_batch_size',
    'Grabs that went into one transaction.',
    [1, 2, 4, 8, 16, 32, 64, 128, 256],
  );
  readonly batchWaitSeconds = this.histogram(
    'luckyledger_grab_wait_seconds',
    'How long the oldest grab of a batch had waited.',
    [0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5],
  );
  readonly retries = this.counter(
    'luckyledger_transaction_retries_total',
    'Units that ran again, by cause (errno or "lost").',
    ['unit', 'cause'],
  );
  readonly transactionSeconds = this.histogram(
    'luckyledger_transaction_seconds',
    'Transactions by unit and outcome.',
    [...millisecondsToSeconds, 30],
    ['unit', 'outcome'],
  );
  readonly refunded = this.counter('luckyledger_packets_expired_total', 'Packets that the sweeper refunded.');

  constructor() {
    collectDefaultMetrics({ register: this.registry });
  }

  /** What a scrape is told. */
  async text(): Promise<string> {
    return await this.registry.metrics();
  }

  /** Feeds the database door's events into the metrics. */
  databaseEvents(): DatabaseEvents {
    return {
      retried: (unit, cause) => this.retries.inc({ unit, cause }),
      finished: (unit, seconds, outcome) => this.transactionSeconds.observe({ unit, outcome }, seconds),
    };
  }

  /** A counter of its own for another feature. Throws when the name is taken. */
  counter<Label extends string = never>(
    name: string,
    help: string,
    labelNames: readonly Label[] = [],
  ): Counter<Label> {
    return new Counter({ name, help, labelNames, registers: [this.registry] });
  }

  /** A distribution; `buckets` are upper bounds, in the unit that the name ends with. */
  histogram<Label extends string = never>(
    name: string,
    help: string,
    buckets: number[],
    labelNames: readonly Label[] = [],
  ): Histogram<Label> {
    return new Histogram({ name, help, buckets, labelNames, registers: [this.registry] });
  }

  /** A value that is read when somebody asks. `aggregator`: how the values of several workers become one. */
  gauge(name: string, help: string, read: () => number, aggregator: Aggregator = 'sum'): void {
    addGauge(this.registry, name, help, read, aggregator);
  }
}

/** Adds a value to a registry that is read when somebody asks. */
export function addGauge(
  registry: Registry,
  name: string,
  help: string,
  read: () => number,
  aggregator: Aggregator = 'sum',
): void {
  // The registry keeps the gauge.
  // oxlint-disable-next-line no-new
  new Gauge({
    name,
    help,
    aggregator,
    registers: [registry],
    collect() {
      this.set(read());
    },
  });
}
