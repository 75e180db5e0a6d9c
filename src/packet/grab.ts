import { changeOf, rowsOf, type Database, type Step, type Tx } from '../database/database.ts';
import { balancesStep, openWalletsStep } from '../ledger/post.ts';
import { appendStep, type Message } from '../outbox/append.ts';
import {
  finalRefusal,
  grabOf,
  notFound,
  notInvited,
  refusalAt,
  soldOut,
  type Grab,
  type GrabOutcome,
} from './packet.ts';
import * as sql from './sql.ts';

/** Grabs for these users, in order of arrival, in one transaction. What it resolves to is committed. */
export type Claim = (packetId: string, userIds: readonly string[]) => Promise<GrabOutcome[]>;

/** Claims on this database, on this thread. */
export function claimIn(database: Database): Claim {
  return async (packetId, userIds) =>
    await database.withTransaction('packet.grab', async (tx) => await claimShares(tx, packetId, userIds));
}

/**
 * Claims shares of one packet for these users, in order of arrival, in the caller's transaction; one user is a
 * batch of one. The heart of the product:
 *
 *   lock the packet (batches of several processes take turns; the counter now tells the exact next shares)
 *   → the time, and what these users have already (so a repeat, and a run after a lost COMMIT, is harmless)
 *   → the next k shares → mark them by a conditional UPDATE that must affect exactly k → k grabs under unique keys
 *   → balances and k transfers → counters → outbox.
 *
 * Two round trips: all that is read, then all that is written, with the COMMIT. One trip for each statement took a
 * quarter longer for 256 grabs, and twice as long for one. So the caller's transaction ends with this.
 *
 * Locks: the packet, wallets that are opened, k shares, its escrow and the other wallets in ascending order of id.
 * Each result is a grab or a refusal: NOT_FOUND, NOT_INVITED, NOT_OPEN_YET, SOLD_OUT, EXPIRED, CLOSED.
 */
export async function claimShares(
  tx: Tx,
  packetId: string,
  userIds: readonly string[],
): Promise<GrabOutcome[]> {
  const users = [...new Set(userIds)];
  const wanted = JSON.stringify(users);
  const [[packet], [clock, ...known], amounts] = await tx.all(
    rowsOf(sql.lockPacket, [packetId]),
    rowsOf(sql.lookUsersUp, [wanted, packetId]),
    rowsOf(sql.nextAmounts, [users.length, packetId]),
  );
  if (packet === undefined) return userIds.map(() => ({ outcome: 'refused', refusal: notFound() }));
  const now = clock?.at;
  if (now === undefined || now === null) throw new Error('the database did not tell its time');
  const { earlier, wallets } = readKnown(packetId, known);
  const strangers = users.filter((user) => !earlier.has(user));
  const invited = packet.invited_only === 1 ? await invitedOf(tx, packetId, strangers) : null;
  const eligible = invited === null ? strangers : strangers.filter((user) => invited.has(user));
  const refusal = refusalAt(packet, now);
  const room = packet.share_count - packet.claimed_count;
  const winners = refusal === null ? eligible.slice(0, room) : [];
  const grabs = grabsFor(packet, winners, amounts, now);
  if (grabs.length > 0) await grant(tx, packet, grabs, wallets);
  const granted = new Map(grabs.map((grab) => [grab.userId, grab]));

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

/** The next shares for these users, all of them new and no more than there are shares left; in order of arrival. */
function grabsFor(
  packet: sql.PacketRow,
  users: readonly string[],
  amounts: readonly { amount: number }[],
  now: Date,
): Grab[] {
  return users.map((userId, index) => {
    const seq = packet.claimed_count + 1 + index;
    const amount = amounts[index]?.amount;
    if (amount === undefined) throw new Error(`share ${seq} of packet ${packet.id} is not there`);
    return { packetId: packet.id, userId, seq, amount, grabbedAt: now };
  });
}

/** Writes these grabs, at least one, whose shares are neighbours and the next ones of a packet under lock. */
async function grant(
  tx: Tx,
  packet: sql.PacketRow,
  grabs: readonly Grab[],
  wallets: ReadonlyMap<string, number>,
): Promise<void> {
  const [first, last] = [grabs[0]?.seq ?? 0, grabs.at(-1)?.seq ?? 0];
  const rows = grabs.map(({ seq, userId, amount }) => [seq, userId, amount]);
  const amounts = new Map(grabs.map(({ userId, amount }) => [userId, amount]));
  const opening = new Map([...amounts].filter(([user]) => !wallets.has(user)));
  const changes: [id: number, delta: number][] = [[packet.escrow_account_id, -sumOf(amounts.values())]];
  for (const [user, amount] of amounts) {
    const id = wallets.get(user);
    if (id !== undefined) changes.push([id, amount]);
  }
  await tx.finish(
    ...(opening.size === 0 ? [] : [openWalletsStep(packet.currency, opening)]),
    changeOf(sql.claimShares, [packet.id, first, last], grabs.length),
    // Not counted here: payGrabs finds as many as it must, or fails.
    changeOf(sql.insertGrabs, [packet.id, grabs[0]?.grabbedAt ?? null, JSON.stringify(rows)]),
    balancesStep(changes),
    changeOf(sql.payGrabs, [packet.id, first, last], grabs.length),
    ...countSteps(packet, grabs),
  );
}

/** Brings the packet's counters up, ends it with its last share, and announces the grabs. */
function countSteps(packet: sql.PacketRow, grabs: readonly Grab[]): readonly Step<unknown>[] {
  const [{ grabbedAt: now }] = grabs as [Grab];
  const claimedCount = packet.claimed_count + grabs.length;
  const claimedAmount = packet.claimed_amount + sumOf(grabs.map(({ amount }) => amount));
  const isLast = claimedCount === packet.share_count;
  const seqs = { first: packet.claimed_count + 1, last: claimedCount };
  const messages: Message[] = [{ topic: 'packet.grabbed', subjectId: packet.id, seqs }];
  if (isLast) messages.push({ topic: 'packet.sold_out', subjectId: packet.id });
  const values = [
    claimedCount,
    claimedAmount,
    isLast ? 'SOLD_OUT' : 'OPEN',
    isLast ? now : null,
    packet.id,
    packet.claimed_count,
  ];
  return [changeOf(sql.countClaims, values, 1), appendStep(messages, now)];
}

/** The grabs and the wallets that users have, by user. */
function readKnown(
  packetId: string,
  rows: readonly {
    user_id: string | null;
    wallet: number | null;
    seq: number | null;
    amount: number | null;
    at: Date | null;
  }[],
): { earlier: Map<string, Grab>; wallets: Map<string, number> } {
  const earlier = new Map<string, Grab>();
  const wallets = new Map<string, number>();
  for (const { user_id: userId, wallet, seq, amount, at } of rows) {
    if (userId === null) throw new Error('a row of nobody');
    if (wallet !== null) wallets.set(userId, wallet);
    if (seq === null) continue;
    if (amount === null || at === null) throw new Error('a grab without its share');
    earlier.set(userId, { packetId, userId, seq, amount, grabbedAt: at });
  }
  return { earlier, wallets };
}

function sumOf(amounts: Iterable<number>): number {
  let sum = 0;
  for (const amount of amounts) sum += amount;
  return sum;
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
  const rows = await database.rows(sql.findGrabs, [JSON.stringify(userIds), packet.id]);
  const grabs = new Map(rows.map((row) => [row.user_id, row]));
  return userIds.map((userId) => {
    const row = grabs.get(userId);
    if (row === undefined) return { outcome: 'refused', refusal: finalRefusal(packet) };
    return { outcome: 'already_granted', ...grabOf(packet.id, row) };
  });
}
