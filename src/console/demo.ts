import { randomBytes } from 'node:crypto';
import type { Config } from '../config.ts';
import { Database } from '../database/database.ts';
import { createLog } from '../observe/log.ts';
import { reconcile } from '../reconcile/reconcile.ts';
import { startService } from '../service.ts';
import { migrateGiven, setUp } from './database.ts';
import { FindingsError, print, table } from './output.ts';
import { show } from './reconcile.ts';

const userCount = 100;
const shareCount = 10;
const totalFen = 8_888;

interface GrabAnswer {
  userId: string;
  seq: number;
  amount: number;
}

/** A real service on a free port, a hundred callers over HTTP, and the books checked. */
export async function demo(config: Config): Promise<void> {
  const prepared = await setUp(config);
  try {
    await migrateGiven(config);
    const apiKey = randomBytes(16).toString('hex');
    const service = await startService({
      databaseUrl: prepared.databaseUrl,
      tokenSecret: randomBytes(32).toString('hex'),
      // Everybody plays, whatever the limit of the gate.
      config: { ...config, host: '127.0.0.1', port: 0, apiKey, gate: null },
      log: createLog('warn'),
    });
    try {
      await play(`${service.address}/v1`, apiKey);
    } finally {
      await service.close();
    }
    await checkBooks(prepared.databaseUrl);
  } finally {
    await prepared.stop();
  }
}

async function play(api: string, apiKey: string): Promise<void> {
  const run = randomBytes(4).toString('hex');
  const call = async (path: string, body: unknown): Promise<{ status: number; body: unknown }> => {
    const response = await fetch(`${api}${path}`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${apiKey}`,
        'content-type': 'application/json',
        'idempotency-key': `${run}:${path}`,
      },
      body: JSON.stringify(body),
    });
    const answer: unknown = await response.json();
    if (![200, 201, 410].includes(response.status))
      throw new Error(`${path} answered ${JSON.stringify(answer)}`);
    return { status: response.status, body: answer };
  };
  await call('/accounts/xiaoming/deposits', { amount: totalFen, reference: `demo-${run}` });
  const created = await call('/packets', {
    senderId: 'xiaoming',
    totalAmount: totalFen,
    shareCount,
    greeting: '恭喜发财',
  });
  const { id } = created.body as { id: string };
  print(`小明 (xiaoming) sends ¥${yuan(totalFen)} in ${shareCount} shares: packet ${id}`);
  print(`${userCount} users grab at once …\n`);
  const started = performance.now();
  const answers = await Promise.all(
    Array.from(
      { length: userCount },
      async (_, index) => await call(`/packets/${id}/grabs`, { userId: `guest-${index + 1}` }),
    ),
  );
  const ms = performance.now() - started;
  const winners = answers.filter(({ status }) => status === 201).map(({ body }) => body as GrabAnswer);
  const refused = answers.filter(({ status }) => status === 410).length;
  winners.sort((a, b) => a.seq - b.seq);
  const best = Math.max(...winners.map(({ amount }) => amount));
  const luckiest = winners.find(({ amount }) => amount === best)?.seq;
  print(
    table(
      ['share', 'user', 'yuan', ''],
      winners.map(({ seq, userId, amount }) => [
        seq,
        userId,
        yuan(amount).padStart(6),
        seq === luckiest ? '手气最佳 (luckiest)' : '',
      ]),
    ),
  );
  const sum = winners.reduce((total, { amount }) => total + amount, 0);
  print(
    `\n${winners.length} of ${userCount} users won ¥${yuan(sum)} of ¥${yuan(totalFen)} in ${Math.round(ms)} ms; ${refused} came too late.\n`,
  );
  if (winners.length !== shareCount || sum !== totalFen || winners.length + refused !== userCount)
    throw new FindingsError();
}

async function checkBooks(databaseUrl: string): Promise<void> {
  const database = await Database.open(databaseUrl, { poolSize: 2 });
  try {
    show(await reconcile(database));
  } finally {
    await database.close();
  }
}

function yuan(fen: number): string {
  return (fen / 100).toFixed(2);
}
