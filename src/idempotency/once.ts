import type { Database, Tx, UnitOptions } from '../database/database.ts';
import { RepeatUnitError, errnoOf, errorKind } from '../database/errors.ts';
import { statement } from '../database/statement.ts';
import { Refusal } from '../refusal.ts';

/** A client's promise that requests with this key are one request. */
export interface IdempotencyRequest {
  client: string;
  key: string;
  /** Hex SHA-256 over client, method, path and body: a key belongs to one request. */
  fingerprint: string;
}

/** A final answer, as it is stored and replayed. */
export interface Answer {
  status: number;
  body: unknown;
}

const lockKey = statement<{ fingerprint: string; status: number | null; answer: string }>(
  'idempotency.lock_key',
  `SELECT fingerprint, status, answer FROM idempotency_keys
   WHERE client_id = ? AND idempotency_key = ? FOR UPDATE NOWAIT`,
);
const takeKey = statement(
  'idempotency.take_key',
  `INSERT INTO idempotency_keys (client_id, idempotency_key, fingerprint, answer, created_at)
   VALUES (?, ?, ?, '', UTC_TIMESTAMP(3))`,
);
const storeAnswer = statement(
  'idempotency.store_answer',
  'UPDATE idempotency_keys SET status = ?, answer = ? WHERE client_id = ? AND idempotency_key = ?',
);

/**
 * Runs `effect` once for a key: the key's row, the effect and the stored answer are one transaction, so a crash
 * leaves either all of them or none, and never a wedged key. A Refusal rolls the key back too: the request may
 * succeed later under the same key. The row is written before the effect, so a second request finds it locked.
 * Refuses: IDEMPOTENCY_KEY_IN_FLIGHT (another request with this key is running), IDEMPOTENCY_KEY_REUSED.
 */
export async function once(
  database: Database,
  unit: string,
  request: IdempotencyRequest,
  effect: (tx: Tx) => Promise<Answer>,
  options: UnitOptions = {},
): Promise<Answer & { replayed: boolean }> {
  return await database.withTransaction(
    unit,
    async (tx) => {
      const stored = await storedAnswer(tx, request);
      if (stored !== null) return { ...stored, replayed: true };
      await take(tx, request);
      const answer = await effect(tx);
      await tx.change(storeAnswer, [answer.status, JSON.stringify(answer.body), request.client, request.key]);
      return { ...answer, replayed: false };
    },
    options,
  );
}

async function storedAnswer(
  tx: Tx,
  { client, key, fingerprint }: IdempotencyRequest,
): Promise<Answer | null> {
  let row;
  try {
    [row] = await tx.rows(lockKey, [client, key]);
  } catch (error) {
    // NOWAIT found the row locked: 3572 on MySQL, 1205 on MariaDB.
    const errno = errnoOf(error);
    if (errno !== 3572 && errno !== 1205) throw error;
    throw new Refusal('IDEMPOTENCY_KEY_IN_FLIGHT', {
      detail: 'A request with this Idempotency-Key is still running; repeat this one in a moment.',
      retryAfterSeconds: 1,
    });
  }
  if (row === undefined) return null;
  if (row.fingerprint !== fingerprint) {
    throw new Refusal('IDEMPOTENCY_KEY_REUSED', {
      detail: 'This Idempotency-Key belongs to another request (method, path or body differ). Use a new key.',
    });
  }
  if (row.status === null) throw new Error('an idempotency key was committed without its answer');
  return { status: row.status, body: JSON.parse(row.answer) };
}

async function take(tx: Tx, { client, key, fingerprint }: IdempotencyRequest): Promise<void> {
  try {
    await tx.change(takeKey, [client, key, fingerprint]);
  } catch (error) {
    // Between our look and our insert another request took the key and committed: start over, to find its answer.
    if (errorKind(error) === 'duplicate')
      throw new RepeatUnitError('the idempotency key was taken meanwhile');
    throw error;
  }
}
