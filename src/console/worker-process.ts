import cluster from 'node:cluster';
import type { Config } from '../config.ts';
import { createLog, requestLines } from '../observe/log.ts';
import { WorkerMetrics } from '../observe/workers-metrics.ts';
import { startService } from '../service.ts';

/** A worker cuts what still runs this long before its parent kills it, so that it ends in good order. */
const endingMs = 1_000;

/** A worker's word to its parent that it serves, and where. */
interface Serving {
  serving: string;
}

export function isServing(message: unknown): message is Serving {
  return typeof message === 'object' && message !== null && 'serving' in message;
}

/** What a worker needs over the parent's own environment. The administrator's URL is none of its business. */
export function workerEnvironment(given: {
  databaseUrl: string;
  apiKey: string | null;
  tokenSecret: string;
  port: number;
}): Record<string, string> {
  return {
    DATABASE_URL: given.databaseUrl,
    MIGRATE_DATABASE_URL: '',
    API_KEY: given.apiKey ?? '',
    TOKEN_SECRET: given.tokenSecret,
    PORT: String(given.port),
  };
}

/** Serves as one of several workers until the parent says so, or is gone; then finishes what runs, and ends. */
export async function serveAsWorker(config: Config, closeMs: number): Promise<void> {
  const { databaseUrl, tokenSecret } = config;
  if (databaseUrl === null || tokenSecret === null) throw new Error('a worker is started by its parent only');
  try {
    await serveUntilTold(config, { databaseUrl, tokenSecret }, closeMs);
  } finally {
    // The channel to the parent would keep this process alive.
    if (process.connected) process.disconnect();
  }
}

async function serveUntilTold(
  config: Config,
  secrets: { databaseUrl: string; tokenSecret: string },
  closeMs: number,
): Promise<void> {
  const told = toldToEnd();
  const metrics = new WorkerMetrics();
  const fields = { pid: process.pid };
  const log = createLog(config.logLevel, fields);
  const requestLog = requestLines(config.logLevel, fields);
  const service = await startService({ ...secrets, config, log, requestLog, metrics });
  process.send?.({ serving: service.address } satisfies Serving, () => {});
  await told;
  // Where the parent is gone, nobody else would end a worker that hangs.
  setTimeout(() => process.exit(1), closeMs).unref();
  await service.close(closeMs - endingMs);
  await metrics.leave();
}

async function toldToEnd(): Promise<void> {
  // Ctrl-C reaches the whole group; it is for the parent, which tells its workers.
  for (const signal of ['SIGINT', 'SIGHUP'] as const) process.on(signal, () => {});
  // Node would end a worker at once when its parent is gone, in the middle of its work.
  if (cluster.worker !== undefined) cluster.worker.exitedAfterDisconnect = true;
  await new Promise<void>((resolve) => {
    process.on('SIGTERM', () => resolve());
    process.once('disconnect', () => resolve());
  });
}
