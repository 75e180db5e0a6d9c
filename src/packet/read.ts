import type { Db } from '../database/database.ts';
import { Refusal } from '../refusal.ts';
import { grabOf, isPacketId, notFound, type Grab } from './packet.ts';
import type { Proof } from './split/proof.ts';
import * as sql from './sql.ts';

export interface PacketView {
  packet: sql.PacketRow;
  /** 手气最佳: the largest grab, the earliest one on a tie; null until the packet is finished, or if nobody grabbed. */
  luckiest: Grab | null;
}

/** The packet as it is. Refuses: NOT_FOUND. */
export async function readPacket(db: Db, packetId: string): Promise<PacketView> {
  return await viewOf(db, await mustFind(db, packetId));
}

/** The view of a packet that was read already. */
export async function viewOf(db: Db, packet: sql.PacketRow): Promise<PacketView> {
  return { packet, luckiest: await luckiestOf(db, packet) };
}

async function luckiestOf(db: Db, packet: sql.PacketRow): Promise<Grab | null> {
  if (packet.status === 'OPEN') return null;
  const [row] = await db.rows(sql.luckiestGrab, [packet.id]);
  return row === undefined ? null : grabOf(packet.id, row);
}

/** Grabs in order of seq: those after `afterSeq`, at most `limit`. Refuses: NOT_FOUND. */
export async function listGrabs(
  db: Db,
  packetId: string,
  page: { afterSeq: number; limit: number },
): Promise<{ items: Grab[]; next: number | null }> {
  await mustFind(db, packetId);
  const rows = await db.select<sql.GrabRow>('packet.list_grabs', (knex) =>
    knex('grabs')
      .select('user_id', 'seq', 'amount', 'grabbed_at')
      .where('packet_id', packetId)
      .where('seq', '>', page.afterSeq)
      .orderBy('seq')
      .limit(page.limit + 1),
  );
  const shown = rows.slice(0, page.limit);
  return {
    items: shown.map((row) => grabOf(packetId, row)),
    next: rows.length > page.limit ? (shown.at(-1)?.seq ?? null) : null,
  };
}

export interface HistoryItem {
  packet: sql.PacketRow;
  /** The user's own grab, for the role `grabber`. */
  grab: Grab | null;
}

/** Packets that a user sent or grabbed from, newest first (ids are in order of time): those with an id below `before`. */
export async function listPacketsOf(
  db: Db,
  userId: string,
  role: 'sender' | 'grabber',
  page: { before: string | null; limit: number },
): Promise<{ items: HistoryItem[]; next: string | null }> {
  type Row = sql.PacketRow & { grab_seq?: number; grab_amount?: number; grabbed_at?: Date };
  const rows = await db.select<Row>('packet.list_of_user', (knex) => {
    const newestFirst = knex('packets')
      .select('packets.*')
      .limit(page.limit + 1);
    if (role === 'sender') {
      void newestFirst.where('packets.sender_id', userId).orderBy('packets.id', 'desc');
      if (page.before !== null) void newestFirst.where('packets.id', '<', page.before);
      return newestFirst;
    }
    void newestFirst
      .join('grabs', 'grabs.packet_id', 'packets.id')
      .select({ grab_seq: 'grabs.seq', grab_amount: 'grabs.amount', grabbed_at: 'grabs.grabbed_at' })
      .where('grabs.user_id', userId)
      .orderBy('grabs.packet_id', 'desc');
    if (page.before !== null) void newestFirst.where('grabs.packet_id', '<', page.before);
    return newestFirst;
  });
  const shown = rows.slice(0, page.limit);
  return {
    items: shown.map((row) => ({
      packet: row,
      grab:
        row.grab_seq === undefined || row.grab_amount === undefined || row.grabbed_at === undefined
          ? null
          : {
              packetId: row.id,
              userId,
              seq: row.grab_seq,
              amount: row.grab_amount,
              grabbedAt: row.grabbed_at,
            },
    })),
    next: rows.length > page.limit ? (shown.at(-1)?.id ?? null) : null,
  };
}

const sharesPerRead = 20_000;

/** What a third party needs to recompute the split. Refuses: NOT_FOUND, NOT_FINISHED. */
export async function proofOf(db: Db, packetId: string): Promise<Proof> {
  const packet = await mustFind(db, packetId);
  if (packet.status === 'OPEN') {
    throw new Refusal('NOT_FINISHED', {
      detail: 'The seed is published once the packet is sold out, expired and refunded, or closed.',
    });
  }
  const shares: number[] = [];
  while (shares.length < packet.share_count) {
    const rows = await db.rows(sql.sharesAfter, [packetId, shares.length, sharesPerRead]);
    if (rows.length === 0) throw new Error(`packet ${packetId} has lost shares`);
    for (const { amount } of rows) shares.push(amount);
  }
  return {
    packetId,
    seed: packet.seed.toString('hex'),
    commitment: packet.commitment,
    split: packet.split,
    minShare: packet.min_share,
    maxShare: packet.max_share,
    totalAmount: packet.total_amount,
    shareCount: packet.share_count,
    shares,
  };
}

async function mustFind(db: Db, packetId: string): Promise<sql.PacketRow> {
  if (!isPacketId(packetId)) throw notFound();
  const [packet] = await db.rows(sql.findPacket, [packetId]);
  if (packet === undefined) throw notFound();
  return packet;
}
