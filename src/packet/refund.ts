import type { Database, Tx } from '../database/database.ts';
import { knownWallet } from '../ledger/move.ts';
import { clockOf, post } from '../ledger/post.ts';
import { append } from '../outbox/append.ts';
import { isPacketId, notFound } from './packet.ts';
import * as sql from './sql.ts';

/**
 * Returns what is left of a locked, open packet to its sender and finishes it at `now`, which was read under that
 * lock. The unique transfer reference makes a second refund impossible. Locks: (the packet, by the caller), then the
 * sender's wallet and the escrow.
 */
async function refund(tx: Tx, packet: sql.PacketRow, now: Date, closedBySender: boolean): Promise<void> {
  const amount = packet.total_amount - packet.claimed_amount;
  const wallet = await knownWallet(tx, packet.sender_id, packet.currency);
  const posting = {
    debitAccountId: packet.escrow_account_id,
    creditAccountId: wallet,
    amount,
    reason: 'refund' as const,
    reference: packet.id,
  };
  await post(tx, packet.currency, [posting], now);
  const { affectedRows } = await tx.change(sql.markRefunded, [closedBySender ? 1 : 0, now, packet.id]);
  if (affectedRows !== 1) throw new Error(`packet ${packet.id} was finished under its lock`);
  await append(tx, [{ topic: 'packet.refunded', subjectId: packet.id }], now);
}

/**
 * Closes a packet for its sender: refunds the rest if it is open. Closing a finished packet moves nothing, so any
 * number of repeats is harmless. A packet past its expiry counts as expired, not as closed.
 * `mayClose` is asked under the lock. Refuses: NOT_FOUND, and whatever `mayClose` throws.
 */
export async function closePacket(
  database: Database,
  packetId: string,
  mayClose: (packet: sql.PacketRow) => void,
): Promise<sql.PacketRow> {
  if (!isPacketId(packetId)) throw notFound();
  return await database.withTransaction('packet.close', async (tx) => {
    const [packet] = await tx.rows(sql.lockPacket, [packetId]);
    if (packet === undefined) throw notFound();
    mayClose(packet);
    if (packet.status !== 'OPEN') return packet;
    const now = await clockOf(tx);
    await refund(tx, packet, now, now < packet.expires_at);
    const [closed] = await tx.rows(sql.findPacket, [packetId]);
    if (closed === undefined) throw new Error('the packet vanished');
    return closed;
  });
}

/**
 * Refunds packets whose time is over. Several sweepers share the work: SKIP LOCKED gives each another packet, and
 * each packet is its own transaction. Returns how many it refunded, at most `limit`.
 */
export async function sweepExpired(database: Database, limit = 100): Promise<number> {
  for (let refunded = 0; refunded < limit; refunded += 1) {
    const found = await database.withTransaction('packet.sweep', async (tx) => {
      const [packet] = await tx.rows(sql.lockDuePacket);
      if (packet === undefined) return false;
      await refund(tx, packet, await clockOf(tx), false);
      return true;
    });
    if (!found) return refunded;
  }
  return limit;
}
