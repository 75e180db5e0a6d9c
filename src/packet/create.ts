import { randomBytes } from 'node:crypto';
import { ulid } from 'ulid';
import type { Database, Tx } from '../database/database.ts';
import { once, type Answer, type IdempotencyRequest } from '../idempotency/once.ts';
import { assertFunds, fundedWallet } from '../ledger/move.ts';
import { clockOf, ensureAccount, post } from '../ledger/post.ts';
import { append } from '../outbox/append.ts';
import { Refusal } from '../refusal.ts';
import { defaultLifeSeconds } from './packet.ts';
import { commitmentOf } from './split/proof.ts';
import { splitFaults, splitShares, type SplitRequest } from './split/split.ts';
import { verifySplit } from './split/verify.ts';
import * as sql from './sql.ts';

export interface NewPacket {
  senderId: string;
  currency: string;
  split: SplitRequest;
  opensAt: Date | null;
  expiresInSeconds: number | null;
  greeting: string | null;
  /** Null: everybody may grab. */
  audience: string[] | null;
}

/** Rows in one INSERT of shares: bounds the memory of a statement; more did not make it faster. */
const sharesPerInsert = 5_000;
const audiencePerInsert = 1_000;
/** What a large packet gets beyond the usual deadline, for each 1,000 shares. */
const deadlineMsPerThousandShares = 200;

/** What creation tells besides its answer: for the log, and for tests that look inside. */
export interface CreateHooks {
  /** A split failed its independent check: a person must look. No amounts of persons, only the packet's parameters. */
  splitRejected?: (parameters: Record<string, string | number | null>) => void;
  /** Replaces the split: tests pass one that lies, or one from a fixed seed. */
  split?: (request: SplitRequest, seed: Uint8Array) => Float64Array;
  seed?: () => Buffer;
}

/**
 * Creates a packet, once for an idempotency key: debits the sender's wallet into the packet's escrow, stores the
 * shares, and opens it, in one transaction. `answer` turns the stored packet into the answer to keep.
 *
 * Locks: the key's row; the sender's wallet and the escrow, last, so that a large packet does not block its sender
 * while its shares are stored. Refuses: INVALID_REQUEST (infeasible split, life), INSUFFICIENT_FUNDS,
 * SPLIT_REJECTED, and what `once` refuses.
 */
export async function createPacket(
  database: Database,
  client: string,
  request: IdempotencyRequest,
  input: NewPacket,
  answer: (packet: sql.PacketRow) => Answer,
  hooks: CreateHooks = {},
): Promise<Answer & { replayed: boolean }> {
  const faults = splitFaults(input.split);
  if (faults.length > 0) throw new Refusal('INVALID_REQUEST', { faults });
  const id = ulid();
  const seed = hooks.seed?.() ?? randomBytes(32);
  let shares: Float64Array | null = null;
  const deadlineMs =
    database.limits.deadlineMs + (input.split.shareCount / 1_000) * deadlineMsPerThousandShares;
  return await once(
    database,
    'packet.create',
    request,
    async (tx) => {
      // A cheap look first, without a lock, so that who lacks funds does not make us split and store for nothing.
      const wallet = await fundedWallet(tx, input.senderId, input.currency, input.split.totalAmount);
      shares ??= (hooks.split ?? splitShares)(input.split, seed);
      assertSplit(input.split, shares, id, hooks);
      const escrow = await ensureAccount(tx, id, input.currency, 'escrow');
      await storePacket(tx, { id, seed, escrow, client, input });
      await storeShares(tx, id, shares);
      await assertFunds(tx, wallet, input.split.totalAmount);
      const now = await clockOf(tx);
      const funding = {
        debitAccountId: wallet,
        creditAccountId: escrow,
        amount: input.split.totalAmount,
        reason: 'fund' as const,
        reference: id,
      };
      await post(tx, input.currency, [funding], now);
      await append(tx, [{ topic: 'packet.created', subjectId: id }], now);
      const [stored] = await tx.rows(sql.findPacket, [id]);
      if (stored === undefined) throw new Error('the packet was not stored');
      return answer(stored);
    },
    { deadlineMs },
  );
}

/** The independent check inside the creating transaction: if it fails, nothing is written and a person is told. */
function assertSplit(
  request: SplitRequest,
  shares: Float64Array,
  packetId: string,
  hooks: CreateHooks,
): void {
  const fault = verifySplit(request, shares);
  if (fault === null) return;
  hooks.splitRejected?.({ packetId, fault, ...request });
  throw new Refusal('SPLIT_REJECTED', {
    detail: 'The split of this packet failed its check; nothing was written. Report this to the operator.',
  });
}

async function storePacket(
  tx: Tx,
  {
    id,
    seed,
    escrow,
    client,
    input,
  }: { id: string; seed: Buffer; escrow: number; client: string; input: NewPacket },
): Promise<void> {
  const createdAt = await clockOf(tx);
  const opensAt = input.opensAt !== null && input.opensAt > createdAt ? input.opensAt : createdAt;
  const lifeMs = (input.expiresInSeconds ?? defaultLifeSeconds) * 1000;
  await tx.change(sql.insertPacket, [
    id,
    input.senderId,
    input.currency,
    input.split.totalAmount,
    input.split.shareCount,
    input.split.method,
    input.split.minShare,
    input.split.maxShare,
    seed,
    commitmentOf(seed, id),
    input.greeting,
    input.audience === null ? 0 : 1,
    escrow,
    client,
    createdAt,
    opensAt,
    new Date(opensAt.getTime() + lifeMs),
  ]);
  const audience = [...new Set(input.audience ?? [])].sort();
  for (let from = 0; from < audience.length; from += audiencePerInsert) {
    const rows = audience.slice(from, from + audiencePerInsert).map((userId) => [id, userId]);
    await tx.change(sql.insertAudience, [rows]);
  }
}

/** Stores the shares in order, a bounded number in each statement. */
async function storeShares(tx: Tx, packetId: string, shares: Float64Array): Promise<void> {
  for (let from = 0; from < shares.length; from += sharesPerInsert) {
    const amounts = shares.subarray(from, from + sharesPerInsert);
    const { affectedRows } = await tx.change(sql.insertShares, [packetId, from, `[${amounts.join(',')}]`]);
    if (affectedRows !== amounts.length)
      throw new Error(`stored ${affectedRows} of ${amounts.length} shares`);
  }
}
