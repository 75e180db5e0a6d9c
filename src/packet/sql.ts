import { jsonList, statement, type Statement } from '../database/statement.ts';
import type { SplitMethod } from './split/split.ts';

/**
 * Every statement on `packets`, `packet_shares`, `grabs` and `packet_audience`.
 * Lock order: packets by id, then their shares, then accounts by id.
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

/** Locks these packets that nobody else has locked, in ascending order of id. */
export const lockFreePackets = statement<PacketRow>(
  'packet.lock_free',
  `SELECT ${packetColumns} FROM packets FORCE INDEX (PRIMARY) WHERE id IN (?) ORDER BY id FOR UPDATE SKIP LOCKED`,
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

/**
 * All that a batch must know of each user of `[[packet id, [user id, …]], …]`, in that order: whether it has a wallet in
 * the packet's currency, a grab of the packet, an invitation if one is needed; and the amount of the share that comes next but
 * so many as the user stands in the list. Shares are claimed in order of seq, so they follow the counter: no index on
 * "unclaimed" exists to churn. Exact only while the packets are locked.
 *
 * Every table is joined by a full unique key, so nothing is scanned and no plan depends on how many users there are. One
 * statement, since each table made from JSON costs MySQL 0.1 to 0.3 ms.
 */
export const lookUsersUp = statement<{
  /** From 1, the position of the packet in the list. */
  lot: number;
  /** From 1, the position of the user in the packet's own list. */
  position: number;
  wallet: number | null;
  seq: number | null;
  amount: number | null;
  grabbed_at: Date | null;
  next_amount: number | null;
  invited: 0 | 1;
}>(
  'packet.look_users_up',
  `SELECT wanted.lot, wanted.position, accounts.id AS wallet, grabs.seq, grabs.amount, grabs.grabbed_at,
     packet_shares.amount AS next_amount, packet_audience.user_id IS NOT NULL AS invited
   FROM JSON_TABLE(?, '$[*]' COLUMNS (
     lot FOR ORDINALITY,
     packet_id CHAR(26) CHARACTER SET ascii COLLATE ascii_bin PATH '$[0]',
     NESTED PATH '$[1][*]' COLUMNS (
       position FOR ORDINALITY,
       user_id VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PATH '$'))) AS wanted
   STRAIGHT_JOIN packets ON packets.id = wanted.packet_id
   LEFT JOIN grabs FORCE INDEX (grabs_user_once)
     ON grabs.user_id = wanted.user_id AND grabs.packet_id = packets.id
   LEFT JOIN accounts
     ON accounts.owner = wanted.user_id AND accounts.currency = packets.currency AND accounts.kind = 'wallet'
   LEFT JOIN packet_shares FORCE INDEX (PRIMARY)
     ON packet_shares.packet_id = packets.id AND packet_shares.seq = packets.claimed_count + wanted.position
   LEFT JOIN packet_audience
     ON packet_audience.packet_id = IF(packets.invited_only = 1, packets.id, NULL)
       AND packet_audience.user_id = wanted.user_id`,
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

/** A page of a packet's shares, in order. */
export const sharesAfter = statement<{ seq: number; amount: number }>(
  'packet.shares_after',
  'SELECT seq, amount FROM packet_shares WHERE packet_id = ? AND seq > ? ORDER BY seq LIMIT ?',
);

/** Neighbours among the shares of a packet; bound as `[packet id, first seq, last seq]`. */
function runs(table: string, count: number): string {
  return Array.from(
    { length: count },
    () => `(${table}.packet_id = ? AND ${table}.seq BETWEEN ? AND ?)`,
  ).join(' OR ');
}

/** Marks so many runs of shares, each bound as `[packet id, first seq, last seq]`. */
export const claimShares = (count: number): Statement =>
  statement(
    'packet.claim_shares',
    `UPDATE packet_shares FORCE INDEX (PRIMARY) SET claimed = 1 WHERE (${runs('packet_shares', count)}) AND claimed = 0`,
  );

/** One grab for each `[packet id, [[seq, user id, amount], …]]` of a JSON array; the time that they share is bound once. */
export const insertGrabs = statement(
  'packet.insert_grabs',
  `INSERT INTO grabs (packet_id, seq, user_id, amount, grabbed_at)
   SELECT new_grab.packet_id, new_grab.seq, new_grab.user_id, new_grab.amount, ?
   FROM JSON_TABLE(?, '$[*]' COLUMNS (
     packet_id CHAR(26) CHARACTER SET ascii COLLATE ascii_bin PATH '$[0]',
     NESTED PATH '$[1][*]' COLUMNS (
       seq INT UNSIGNED PATH '$[0]',
       user_id VARCHAR(64) CHARACTER SET utf8mb4 PATH '$[1]',
       amount BIGINT PATH '$[2]'))) AS new_grab`,
);

/**
 * One transfer for each of the grabs in so many runs, bound as for `claimShares`, from the packet's escrow to the winner's
 * wallet. Made from the stored grabs, so that cause and transfer cannot differ, and nothing is sent twice.
 */
export const payGrabs = (count: number): Statement =>
  statement(
    'packet.pay_grabs',
    `INSERT INTO transfers (debit_account_id, credit_account_id, currency, amount, reason, reference, created_at)
   SELECT packets.escrow_account_id, accounts.id, packets.currency, grabs.amount, 'grab',
     CONCAT(grabs.packet_id, ':', grabs.seq), grabs.grabbed_at
   FROM grabs FORCE INDEX (PRIMARY) STRAIGHT_JOIN packets ON packets.id = grabs.packet_id
     STRAIGHT_JOIN accounts
       ON accounts.owner = grabs.user_id AND accounts.currency = packets.currency AND accounts.kind = 'wallet'
   WHERE ${runs('grabs', count)}
   ORDER BY grabs.packet_id, grabs.seq`,
  );

/**
 * Brings counters up to `[[packet id, claimed count until now, claimed count, claimed amount, 1 if that is the last share], …]`,
 * given in ascending order of id; a packet ends with its last share, at the time that is bound second.
 */
export const countClaims = statement(
  'packet.count_claims',
  `UPDATE JSON_TABLE(?, '$[*]' COLUMNS (
     packet_id CHAR(26) CHARACTER SET ascii COLLATE ascii_bin PATH '$[0]',
     known_count INT UNSIGNED PATH '$[1]',
     claimed_count INT UNSIGNED PATH '$[2]',
     claimed_amount BIGINT PATH '$[3]',
     is_last TINYINT PATH '$[4]')) AS claimed_run
   STRAIGHT_JOIN packets ON packets.id = claimed_run.packet_id
   SET packets.claimed_count = claimed_run.claimed_count, packets.claimed_amount = claimed_run.claimed_amount,
     packets.status = IF(claimed_run.is_last = 1, 'SOLD_OUT', 'OPEN'),
     packets.finished_at = IF(claimed_run.is_last = 1, ?, NULL)
   WHERE packets.claimed_count = claimed_run.known_count AND packets.status = 'OPEN'`,
);

export const markRefunded = statement(
  'packet.mark_refunded',
  `UPDATE packets SET status = 'REFUNDED', closed_by_sender = ?, finished_at = ? WHERE id = ? AND status = 'OPEN'`,
);

export const luckiestGrab = statement<GrabRow>(
  'packet.luckiest_grab',
  'SELECT user_id, seq, amount, grabbed_at FROM grabs WHERE packet_id = ? ORDER BY amount DESC, seq LIMIT 1',
);
