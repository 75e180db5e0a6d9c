import { jsonList, statement } from '../database/statement.ts';
import type { SplitMethod } from './split/split.ts';

/**
 * Every statement on `packets`, `packet_shares`, `grabs` and `packet_audience`.
 * Lock order: packet, then its shares, then accounts by id.
 */

export interface PacketRow {
  id: string;
  sender_id: string;
  currency: string;
  total_amount: number;
  share_count: number;
  claimed_count: number;
  claimed_amount: number;
  split: SplitMethod;
  min_share: number;
  max_share: number | null;
  seed: Buffer;
  commitment: string;
  greeting: string | null;
  invited_only: 0 | 1;
  escrow_account_id: number;
  status: 'OPEN' | 'SOLD_OUT' | 'REFUNDED';
  closed_by_sender: 0 | 1;
  created_at: Date;
  opens_at: Date;
  expires_at: Date;
  finished_at: Date | null;
}

export interface GrabRow {
  user_id: string;
  seq: number;
  amount: number;
  grabbed_at: Date;
}

const packetColumns = `id, sender_id, currency, total_amount, share_count, claimed_count, claimed_amount, split,
   min_share, max_share, seed, commitment, greeting, invited_only, escrow_account_id, status, closed_by_sender,
   created_at, opens_at, expires_at, finished_at`;

export const findPacket = statement<PacketRow>(
  'packet.find',
  `SELECT ${packetColumns} FROM packets WHERE id = ?`,
);

export const lockPacket = statement<PacketRow>(
  'packet.lock',
  `SELECT ${packetColumns} FROM packets WHERE id = ? FOR UPDATE`,
);

/** The packet that has been due longest and that nobody works on. The index serves the order, so one row is locked. */
export const lockDuePacket = statement<PacketRow>(
  'packet.lock_due',
  `SELECT ${packetColumns} FROM packets FORCE INDEX (packets_due)
   WHERE status = 'OPEN' AND expires_at <= UTC_TIMESTAMP(3)
   ORDER BY expires_at LIMIT 1 FOR UPDATE SKIP LOCKED`,
);

export const insertPacket = statement(
  'packet.insert',
  `INSERT INTO packets (id, sender_id, currency, total_amount, share_count, split, min_share, max_share, seed,
     commitment, greeting, invited_only, escrow_account_id, created_by, created_at, opens_at, expires_at)
   VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
);

/** Stores a run of shares that follow `seq` (second value); the third is a JSON array of amounts. */
export const insertShares = statement(
  'packet.insert_shares',
  `INSERT INTO packet_shares (packet_id, seq, amount)
   SELECT ?, ? + share.position, share.amount
   FROM JSON_TABLE(?, '$[*]' COLUMNS (position FOR ORDINALITY, amount BIGINT PATH '$')) AS share`,
);

export const insertAudience = statement(
  'packet.insert_audience',
  'INSERT INTO packet_audience (packet_id, user_id) VALUES ?',
);

export const findInvited = statement<{ user_id: string }>(
  'packet.find_invited',
  'SELECT user_id FROM packet_audience WHERE packet_id = ? AND user_id IN (?)',
);

/**
 * The time, and which of a JSON array of users have a wallet in the packet's currency, a grab of it, or both. The first row
 * is the time alone: read by a statement that begins after the lock was got, so not from before the wait. The casts keep
 * MariaDB from making text of a NULL column. One statement, since each table made from JSON costs MySQL 0.3 ms.
 */
export const lookUsersUp = statement<{
  user_id: string | null;
  wallet: number | null;
  seq: number | null;
  amount: number | null;
  at: Date | null;
}>(
  'packet.look_users_up',
  `SELECT NULL AS user_id, CAST(NULL AS UNSIGNED) AS wallet, CAST(NULL AS SIGNED) AS seq, CAST(NULL AS SIGNED) AS amount,
     UTC_TIMESTAMP(3) AS at
   UNION ALL
   SELECT wanted.user_id, accounts.id, CAST(grabs.seq AS SIGNED), grabs.amount, grabs.grabbed_at
   FROM packets STRAIGHT_JOIN ${jsonList('user_id', 'wanted')}
     LEFT JOIN grabs ON grabs.user_id = wanted.user_id AND grabs.packet_id = packets.id
     LEFT JOIN accounts
       ON accounts.owner = wanted.user_id AND accounts.currency = packets.currency AND accounts.kind = 'wallet'
   WHERE packets.id = ? AND (accounts.id IS NOT NULL OR grabs.seq IS NOT NULL)`,
);

/** The grabs of a JSON array of users in one packet. */
export const findGrabs = statement<GrabRow>(
  'packet.find_grabs',
  `SELECT grabs.user_id, grabs.seq, grabs.amount, grabs.grabbed_at
   FROM ${jsonList('user_id', 'wanted')}
   STRAIGHT_JOIN grabs ON grabs.user_id = wanted.user_id AND grabs.packet_id = ?`,
);

export const allGrabs = statement<GrabRow>(
  'packet.all_grabs',
  'SELECT user_id, seq, amount, grabbed_at FROM grabs WHERE packet_id = ?',
);

/**
 * The amounts of the next shares, at most so many (first value), in order. Shares are claimed in order of seq, so they
 * follow the counter: no index on "unclaimed" exists to churn. Exact only while the packet is locked. A range with two
 * ends: for an open one with LIMIT, MySQL first guesses how many rows it has, which took 1 ms; and rows, not one text
 * by GROUP_CONCAT, which took as long again.
 */
export const nextAmounts = statement<{ amount: number }>(
  'packet.next_amounts',
  `SELECT packet_shares.amount
   FROM packets STRAIGHT_JOIN packet_shares FORCE INDEX (PRIMARY) ON packet_shares.packet_id = packets.id
     AND packet_shares.seq BETWEEN packets.claimed_count + 1 AND packets.claimed_count + ?
   WHERE packets.id = ? ORDER BY packet_shares.seq`,
);

/** A page of a packet's shares, in order. */
export const sharesAfter = statement<{ seq: number; amount: number }>(
  'packet.shares_after',
  'SELECT seq, amount FROM packet_shares WHERE packet_id = ? AND seq > ? ORDER BY seq LIMIT ?',
);

export const claimShares = statement(
  'packet.claim_shares',
  'UPDATE packet_shares SET claimed = 1 WHERE packet_id = ? AND seq BETWEEN ? AND ? AND claimed = 0',
);

/** One grab for each `[seq, user id, amount]` of a JSON array; what they share is bound once. */
export const insertGrabs = statement(
  'packet.insert_grabs',
  `INSERT INTO grabs (packet_id, seq, user_id, amount, grabbed_at)
   SELECT ?, new_grab.seq, new_grab.user_id, new_grab.amount, ?
   FROM JSON_TABLE(?, '$[*]' COLUMNS (
     seq INT UNSIGNED PATH '$[0]',
     user_id VARCHAR(64) CHARACTER SET utf8mb4 PATH '$[1]',
     amount BIGINT PATH '$[2]')) AS new_grab`,
);

/**
 * One transfer for each of the grabs from one seq to another, from the packet's escrow to the winner's wallet. Made
 * from the stored grabs, so that cause and transfer cannot differ, and nothing is sent twice.
 */
export const payGrabs = statement(
  'packet.pay_grabs',
  `INSERT INTO transfers (debit_account_id, credit_account_id, currency, amount, reason, reference, created_at)
   SELECT packets.escrow_account_id, accounts.id, packets.currency, grabs.amount, 'grab',
     CONCAT(grabs.packet_id, ':', grabs.seq), grabs.grabbed_at
   FROM packets STRAIGHT_JOIN grabs ON grabs.packet_id = packets.id
     STRAIGHT_JOIN accounts
       ON accounts.owner = grabs.user_id AND accounts.currency = packets.currency AND accounts.kind = 'wallet'
   WHERE packets.id = ? AND grabs.seq BETWEEN ? AND ?
   ORDER BY grabs.seq`,
);

export const countClaims = statement(
  'packet.count_claims',
  `UPDATE packets SET claimed_count = ?, claimed_amount = ?, status = ?, finished_at = ?
   WHERE id = ? AND claimed_count = ? AND status = 'OPEN'`,
);

export const markRefunded = statement(
  'packet.mark_refunded',
  `UPDATE packets SET status = 'REFUNDED', closed_by_sender = ?, finished_at = ? WHERE id = ? AND status = 'OPEN'`,
);

export const luckiestGrab = statement<GrabRow>(
  'packet.luckiest_grab',
  'SELECT user_id, seq, amount, grabbed_at FROM grabs WHERE packet_id = ? ORDER BY amount DESC, seq LIMIT 1',
);
