import type { Database, Tx } from '../database/database.ts';
import { ensureAccounts, post } from '../ledger/post.ts';
import { append, type Message } from '../outbox/append.ts';
import { grabOf, notFound, notInvited, refusalAt, soldOut, type Grab, type GrabOutcome } from './packet.ts';
import * as sql from './sql.ts';

/**
 * Claims shares of one packet for these users, in order of arrival, in the caller's transaction; one user is a
 * batch of one. The heart of the product:
 *
 *   lock the packet (batches of several processes take turns; the counter now tells the exact next shares)
 *   → the time, and what these users have already (so a repeat, and a run after a lost COMMIT, is harmless)
 *   → the next k shares → mark them by a conditional UPDATE that must affect exactly k → k grabs under unique keys
 *   → balances and k transfers → counters → outbox.
 *
 * Locks: the packet, k shares, its escrow and k wallets in ascending order of id.
 * Each result is a grab or a refusal: NOT_FOUND, NOT_INVITED, NOT_OPEN_YET, SOLD_OUT, EXPIRED, CLOSED.
 */
export async function claimShares(
  tx: Tx,
  packetId: string,
  userIds: readonly string[],
): Promise<GrabOutcome[]> {
  const [packet] = await tx.rows(sql.lockPacket, [packetId]);
  if (packet === undefined) return userIds.map(() => ({ outcome: 'refused', refusal: notFound() }));
  const users = [...new Set(userIds)];
  const { now, grabs: earlier } = await clockAndGrabs(tx, packetId, users);
  const strangers = users.filter((user) => !earlier.has(user));
  const invited = packet.invited_only === 1 ? await invitedOf(tx, packetId, strangers) : null;
  const eligible = invited === null ? strangers : strangers.filter((user) => invited.has(user));
  const refusal = refusalAt(packet, now);
  const room = packet.share_count - packet.claimed_count;
  const winners = refusal === null ? eligible.slice(0, room) : [];
  const granted = winners.length === 0 ? new Map<string, Grab>() : await grant(tx, packet, winners, now);

  // What those hear who came after the last share of this very batch.
  const tooLate = refusal ?? soldOut();
  const answered = new Set<string>();
  return userIds.map((user) => {
    const before = earlier.get(user);
    if (before !== undefined) return { outcome: 'already_granted', ...before };
    const grab = granted.get(user);
    if (grab !== undefined) {
      // The same user twice in one batch: the second is a repeat.
      const outcome = answered.has(user) ? 'already_granted' : 'granted';
      answered.add(user);
      return { outcome, ...grab };
    }
    if (refusal === null && invited !== null && !invited.has(user)) {
      return { outcome: 'refused', refusal: notInvited() };
    }
    return { outcome: 'refused', refusal: tooLate };
  });
}

/** Gives the next shares to these users: all of them new, at least one, no more than there are shares left. */
async function grant(
  tx: Tx,
  packet: sql.PacketRow,
  users: readonly string[],
  now: Date,
): Promise<Map<string, Grab>> {
  const first = packet.claimed_count + 1;
  const last = packet.claimed_count + users.length;
  const shares = await tx.rows(sql.nextShares, [packet.id, packet.claimed_count, users.length]);
  if (shares.length !== users.length || shares[0]?.seq !== first || shares.at(-1)?.seq !== last) {
    throw new Error(`shares ${first} to ${last} of packet ${packet.id} are not all there`);
  }
  const { affectedRows } = await tx.change(sql.claimShares, [packet.id, first, last]);
  if (affectedRows !== users.length) {
    throw new Error(`claimed ${affectedRows} of ${users.length} shares of packet ${packet.id}`);
  }
  const grabs = shares.map(({ seq, amount }, index): Grab => {
    const userId = users[index] as string;
    return { packetId: packet.id, userId, seq, amount, grabbedAt: now };
  });
  const rows = JSON.stringify(grabs.map((grab) => [grab.seq, grab.userId, grab.amount]));
  const inserted = await tx.change(sql.insertGrabs, [packet.id, now, rows]);
  if (inserted.affectedRows !== grabs.length) {
    throw new Error(`inserted ${inserted.affectedRows} of ${grabs.length} grabs`);
  }
  await payOut(tx, packet, grabs, now);
  await count(tx, packet, grabs, now);
  return new Map(grabs.map((grab) => [grab.userId, grab]));
}

/** Moves each amount from the packet's escrow to the winner's wallet. */
async function payOut(tx: Tx, packet: sql.PacketRow, grabs: readonly Grab[], now: Date): Promise<void> {
  const wallets = await ensureAccounts(
    tx,
    grabs.map(({ userId }) => userId),
    packet.currency,
    'wallet',
  );
  const postings = grabs.map(({ userId, seq, amount }) => {
    const creditAccountId = wallets.get(userId);
    if (creditAccountId === undefined) throw new Error('a wallet was not made');
    return {
      debitAccountId: packet.escrow_account_id,
      creditAccountId,
      amount,
      reason: 'grab' as const,
      reference: `${packet.id}:${seq}`,
    };
  });
  await post(tx, packet.currency, postings, now);
}

/** Brings the packet's counters up, ends it with its last share, and announces the grabs. */
async function count(tx: Tx, packet: sql.PacketRow, grabs: readonly Grab[], now: Date): Promise<void> {
  const claimedCount = packet.claimed_count + grabs.length;
  const claimedAmount = packet.claimed_amount + grabs.reduce((sum, { amount }) => sum + amount, 0);
  const soldOut = claimedCount === packet.share_count;
  const { affectedRows } = await tx.change(sql.countClaims, [
    claimedCount,
    claimedAmount,
    soldOut ? 'SOLD_OUT' : 'OPEN',
    soldOut ? now : null,
    packet.id,
    packet.claimed_count,
  ]);
  if (affectedRows !== 1) throw new Error(`the counters of packet ${packet.id} moved under its lock`);
  const messages: Message[] = [
    {
      topic: 'packet.grabbed',
      subjectId: packet.id,
      seqs: { first: packet.claimed_count + 1, last: claimedCount },
    },
  ];
  if (soldOut) messages.push({ topic: 'packet.sold_out', subjectId: packet.id });
  await append(tx, messages, now);
}

async function clockAndGrabs(
  tx: Tx,
  packetId: string,
  users: readonly string[],
): Promise<{ now: Date; grabs: Map<string, Grab> }> {
  const [clock, ...rows] = await tx.rows(sql.clockAndGrabs, [packetId, users]);
  if (clock === undefined) throw new Error('the database did not tell its time');
  const grabs = new Map<string, Grab>();
  for (const { user_id: userId, seq, amount, at } of rows) {
    if (userId === null || seq === null || amount === null) throw new Error('a grab without its share');
    grabs.set(userId, { packetId, userId, seq, amount, grabbedAt: at });
  }
  return { now: clock.at, grabs };
}

async function invitedOf(tx: Tx, packetId: string, users: readonly string[]): Promise<Set<string>> {
  if (users.length === 0) return new Set();
  const rows = await tx.rows(sql.findInvited, [packetId, users]);
  return new Set(rows.map((row) => row.user_id));
}

/**
 * What these users have of a packet that is finished for good: repeats of winners hear their grab, all others the
 * packet's final refusal. Takes no lock and no transaction.
 */
export async function readFinished(
  database: Database,
  packet: sql.PacketRow,
  userIds: readonly string[],
): Promise<GrabOutcome[]> {
  const rows = await database.rows(sql.findGrabs, [packet.id, userIds]);
  const grabs = new Map(rows.map((row) => [row.user_id, row]));
  return userIds.map((userId) => {
    const row = grabs.get(userId);
    if (row === undefined) return { outcome: 'refused', refusal: finalRefusal(packet) };
    return { outcome: 'already_granted', ...grabOf(packet.id, row) };
  });
}

function finalRefusal(packet: sql.PacketRow): NonNullable<ReturnType<typeof refusalAt>> {
  const refusal = refusalAt(packet, packet.finished_at ?? packet.expires_at);
  if (refusal === null) throw new Error('the packet is not finished');
  return refusal;
}
