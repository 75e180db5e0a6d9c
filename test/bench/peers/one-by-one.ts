import type { Database } from '../../../src/database/database.ts';
import { statement } from '../../../src/database/statement.ts';
import { ensureAccount, post } from '../../../src/ledger/post.ts';
import type { Grab } from '../../../src/packet/packet.ts';
import { append } from '../../../src/outbox/append.ts';

/**
 * The peer: one transaction for each grab, as careful people write it. A free share is taken with SKIP LOCKED, so
 * claimers do not wait for each other there, and the search begins near the first free one; the same tables, ledger, wallets, counters and outbox are written.
 * What must be shared (the packet's counters, the escrow) comes last, so that its locks are held briefly.
 */
const findPacket = statement<{
  escrow_account_id: number;
  currency: string;
  claimed_count: number;
  now: Date;
}>(
  'peer.find_packet',
  `SELECT escrow_account_id, currency, claimed_count, UTC_TIMESTAMP(3) AS now
   FROM packets WHERE id = ? AND expires_at > UTC_TIMESTAMP(3)`,
);
const takeShare = statement<{ seq: number; amount: number }>(
  'peer.take_share',
  `SELECT seq, amount FROM packet_shares WHERE packet_id = ? AND seq > ? AND claimed = 0
   ORDER BY seq LIMIT 1 FOR UPDATE SKIP LOCKED`,
);
const markShare = statement(
  'peer.mark_share',
  'UPDATE packet_shares SET claimed = 1 WHERE packet_id = ? AND seq = ? AND claimed = 0',
);
const insertGrab = statement(
  'peer.insert_grab',
  'INSERT INTO grabs (packet_id, seq, user_id, amount, grabbed_at) VALUES (?, ?, ?, ?, ?)',
);
const count = statement(
  'peer.count',
  `UPDATE packets SET finished_at = IF(claimed_count + 1 = share_count, ?, NULL),
     status = IF(claimed_count + 1 = share_count, 'SOLD_OUT', 'OPEN'),
     claimed_amount = claimed_amount + ?, claimed_count = claimed_count + 1 WHERE id = ?`,
);

/** Connections of the benchmark. */
export const claimers = 64;

export async function grabOneByOne(
  database: Database,
  packetId: string,
  userId: string,
): Promise<Grab | null> {
  return await database.withTransaction('peer.grab', async (tx) => {
    const [packet] = await tx.rows(findPacket, [packetId]);
    if (packet === undefined) return null;
    // With at most `claimers` at work no share further back than that is free, but for one whose claimer gave up.
    const from = Math.max(0, packet.claimed_count - claimers);
    let [share] = await tx.rows(takeShare, [packetId, from]);
    if (share === undefined && from > 0) [share] = await tx.rows(takeShare, [packetId, 0]);
    if (share === undefined) return null;
    const { affectedRows } = await tx.change(markShare, [packetId, share.seq]);
    if (affectedRows !== 1) throw new Error('the share was taken under its lock');
    await tx.change(insertGrab, [packetId, share.seq, userId, share.amount, packet.now]);
    const wallet = await ensureAccount(tx, userId, packet.currency, 'wallet');
    const posting = {
      debitAccountId: packet.escrow_account_id,
      creditAccountId: wallet,
      amount: share.amount,
      reason: 'grab' as const,
      reference: `${packetId}:${share.seq}`,
    };
    await append(
      tx,
      [{ topic: 'packet.grabbed', subjectId: packetId, seqs: { first: share.seq, last: share.seq } }],
      packet.now,
    );
    await tx.change(count, [packet.now, share.amount, packetId]);
    await post(tx, packet.currency, [posting], packet.now);
    return { packetId, userId, seq: share.seq, amount: share.amount, grabbedAt: packet.now };
  });
}
