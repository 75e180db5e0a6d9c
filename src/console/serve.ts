import cluster from 'node:cluster';
import { randomBytes } from 'node:crypto';
import type { Config } from '../config.ts';
import { createLog, requestLines, type Logger } from '../observe/log.ts';
import { startService } from '../service.ts';
import { migrateGiven, setUp } from './database.ts';
import { say } from './output.ts';
import { serveAsWorker, workerEnvironment } from './worker-process.ts';
import { commonPort, Workers } from './workers.ts';

/** How long running work may take to end after SIGTERM. */
const closeMs = 10_000;
const stopping = 'Stopping: no new requests; finishing what runs';

interface Given {
  databaseUrl: string;
  apiKey: string | null;
  tokenSecret: string;
}

/** Serves until SIGINT or SIGTERM; then finishes what runs and ends the private server, if it started one. */
export async function serve(config: Config): Promise<void> {
  if (cluster.isWorker && config.workers > 1) {
    await serveAsWorker(config, closeMs);
    return;
  }
  const prepared = await setUp(config);
  try {
    await migrateGiven(config);
    const log = createLog(config.logLevel);
    const given = {
      databaseUrl: prepared.databaseUrl,
      apiKey: config.apiKey ?? (prepared.apiKey === '' ? null : prepared.apiKey),
      tokenSecret: tokenSecretOf(config.tokenSecret ?? prepared.tokenSecret, log),
    };
    if (config.workers === 1) await serveAlone(config, given, log);
    else await serveByWorkers(config, given, log);
  } finally {
    await prepared.stop();
  }
}

async function serveAlone(config: Config, given: Given, log: Logger): Promise<void> {
  const { databaseUrl, apiKey, tokenSecret } = given;
  const service = await startService({
    databaseUrl,
    tokenSecret,
    config: { ...config, apiKey },
    log,
    requestLog: requestLines(config.logLevel),
  });
  const closing = signalled();
  greet(service.address, apiKey, config);
  await closing;
  say(stopping);
  await service.close(closeMs);
}

async function serveByWorkers(config: Config, given: Given, log: Logger): Promise<void> {
  const port = await commonPort(config.host, config.port);
  const workers = new Workers(config.workers, workerEnvironment({ ...given, port }), log);
  const closing = signalled();
  try {
    const address = await Promise.race([workers.start(), closing]);
    if (address !== undefined) greet(address, given.apiKey, config);
    await closing;
    say(stopping);
  } finally {
    // Killed workers have cut somebody off, and whoever started us should know.
    if (!(await workers.close(closeMs))) process.exitCode = 1;
  }
}

/** The secret that is given, or a new one; warns of one that is weak. */
function tokenSecretOf(given: string, log: Logger): string {
  if (given === '') {
    log.warn('TOKEN_SECRET is not set: participant tokens end with this process and are not valid in others');
    return randomBytes(32).toString('hex');
  }
  if (given.length < 16) {
    log.warn(
      'TOKEN_SECRET is short: participant tokens could be forged by guessing it; use 32 random characters',
    );
  }
  return given;
}

function greet(address: string, apiKey: string | null, config: Config): void {
  say(`Luckyledger serves on ${address} (API page: ${address}/docs)`);
  if (apiKey === null) {
    say('Make an API key with: npm run cli -- keys create --name app --scopes admin');
    return;
  }
  // A key from the environment is known to whoever set it, and does not belong on a screen.
  const shown = config.apiKey === null ? apiKey : '$API_KEY';
  if (config.apiKey === null) say(`API key: ${apiKey}`);
  say('Try:');
  say(
    `  curl -s ${address}/v1/accounts/alice/deposits -H 'Authorization: Bearer ${shown}' ` +
      `-H 'Content-Type: application/json' -H 'Idempotency-Key: first-deposit' -d '{"amount":10000,"reference":"first"}'`,
  );
}

async function signalled(): Promise<void> {
  await new Promise<void>((resolve) => {
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => resolve());
  });
}
