import { randomBytes } from 'node:crypto';
import type { Config } from '../config.ts';
import { createLog, requestLines } from '../observe/log.ts';
import { startService } from '../service.ts';
import { migrateGiven, setUp } from './database.ts';
import { say } from './output.ts';

/** How long running work may take to end after SIGTERM. */
const closeMs = 10_000;

/** Serves until SIGINT or SIGTERM; then finishes what runs and ends the private server, if it started one. */
export async function serve(config: Config): Promise<void> {
  const prepared = await setUp(config);
  try {
    await migrateGiven(config);
    const log = createLog(config.logLevel);
    const apiKey = config.apiKey ?? (prepared.apiKey === '' ? null : prepared.apiKey);
    const tokenSecret = config.tokenSecret ?? prepared.tokenSecret;
    if (tokenSecret === '') {
      log.warn(
        'TOKEN_SECRET is not set: participant tokens end with this process and are not valid in others',
      );
    }
    if (tokenSecret !== '' && tokenSecret.length < 16) {
      log.warn(
        'TOKEN_SECRET is short: participant tokens could be forged by guessing it; use 32 random characters',
      );
    }
    const service = await startService({
      databaseUrl: prepared.databaseUrl,
      tokenSecret: tokenSecret === '' ? randomBytes(32).toString('hex') : tokenSecret,
      config: { ...config, apiKey },
      log,
      requestLog: requestLines(config.logLevel),
    });
    const closing = signalled();
    greet(service.address, apiKey, config);
    await closing;
    say('Stopping: no new requests; finishing what runs');
    await service.close(closeMs);
  } finally {
    await prepared.stop();
  }
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
