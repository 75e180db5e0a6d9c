import { parentPort, workerData } from 'node:worker_threads';
import { Database } from '../database/database.ts';
import { scrubbed } from '../observe/log.ts';
import { Refusal } from '../refusal.ts';
import {
  detailsOf,
  packOutcomes,
  type FromThread,
  type ThreadData,
  type ToThread,
} from './claim-messages.ts';
import { claimIn } from './grab.ts';

/** The thread of the grabs: see ClaimThread. */
if (parentPort === null) throw new Error('this file is for a thread');
const port = parentPort;
// A port of a thread has no origin.
// oxlint-disable-next-line unicorn/require-post-message-target-origin
const tell = (message: FromThread): void => port.postMessage(message);

const { databaseUrl, poolSize } = workerData as ThreadData;
const database = await Database.open(
  databaseUrl,
  { poolSize },
  {
    retried: (unit, cause) => tell({ kind: 'retried', unit, cause }),
    finished: (unit, seconds, outcome) => tell({ kind: 'finished', unit, seconds, outcome }),
  },
);
const claim = claimIn(database);

port.on('message', (message: ToThread) => {
  if (message.kind === 'claim') void answer(message);
  // With the port closed and the pool ended nothing keeps the thread.
  else void database.close(message.deadlineMs).then(() => port.close());
});
tell({ kind: 'ready' });

async function answer({ id, lots }: Extract<ToThread, { kind: 'claim' }>): Promise<void> {
  try {
    tell({ kind: 'claimed', id, packed: packOutcomes(await claim(lots)) });
  } catch (error) {
    if (error instanceof Refusal) {
      tell({ kind: 'refused', id, code: error.code, details: detailsOf(error) });
      return;
    }
    tell({ kind: 'failed', id, fields: scrubbed(error) });
  }
}
