import { Counter, Gauge, Histogram, Registry, collectDefaultMetrics } from 'prom-client';
import type { DatabaseEvents } from '../database/database.ts';

/** Every metric of the service, with its name and labels in one place. */
export class Metrics {
  readonly registry = new Registry();
  readonly requests = new Counter({
    name: 'luckyledger_http_requests_total',
    help: 'Requests by route and status.',
    labelNames: ['route', 'status'] as const,
    registers: [this.registry],
  });
  readonly requestSeconds = new Histogram({
    name: 'luckyledger_http_request_seconds',
    help: 'Time from the request to its answer.',
    labelNames: ['route'] as const,
    buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5],
    registers: [this.registry],
  });
  readonly grabs = new Counter({
    name: 'luckyledger_grabs_total',
    help: 'Grabs by outcome: granted, already_granted, or the code of the refusal.',
    labelNames: ['outcome'] as const,
    registers: [this.registry],
  });
  readonly batchSize = new Histogram({
    name: 'luckyledger_grab_batch_size',
    help: 'Grabs that went into one transaction.',
    buckets: [1, 2, 4, 8, 16, 32, 64, 128, 256],
    registers: [this.registry],
  });
  readonly batchWaitSeconds = new Histogram({
    name: 'luckyledger_grab_wait_seconds',
    help: 'How long the oldest grab of a batch had waited.',
    buckets: [0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5],
    registers: [this.registry],
  });
  readonly retries = new Counter({
    name: 'luckyledger_transaction_retries_total',
    help: 'Units that ran again, by cause (errno or "lost").',
    labelNames: ['unit', 'cause'] as const,
    registers: [this.registry],
  });
  readonly transactionSeconds = new Histogram({
    name: 'luckyledger_transaction_seconds',
    help: 'Transactions by unit and outcome.',
    labelNames: ['unit', 'outcome'] as const,
    buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 30],
    registers: [this.registry],
  });
  readonly refunded = new Counter({
    name: 'luckyledger_packets_expired_total',
    help: 'Packets that the sweeper refunded.',
    registers: [this.registry],
  });

  constructor() {
    collectDefaultMetrics({ register: this.registry });
  }

  /** Feeds the database door's events into the metrics. */
  databaseEvents(): DatabaseEvents {
    return {
      retried: (unit, cause) => this.retries.inc({ unit, cause }),
      finished: (unit, seconds, outcome) => this.transactionSeconds.observe({ unit, outcome }, seconds),
    };
  }

  /** A value that is read when somebody asks. */
  gauge(name: string, help: string, read: () => number): void {
    // The registry keeps the gauge.
    // oxlint-disable-next-line no-new
    new Gauge({
      name,
      help,
      registers: [this.registry],
      collect() {
        this.set(read());
      },
    });
  }
}
