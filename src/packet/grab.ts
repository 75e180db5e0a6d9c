import { changeOf, rowsOf, type Database, type Step, type Tx } from '../database/database.ts';
import { balancesStep, openWalletsStep } from '../ledger/post.ts';
import { clock } from '../ledger/sql.ts';
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

/** Users who want a share of one packet, in order of arrival. */
export interface PacketLot {
  packetId: string;
  userIds: readonly string[];
}

/**
 * Grabs of these packets, all different, in one transaction. What it resolves to is committed. Null for one of several
 * packets: somebody else holds it, and nothing was done.
 */
export type Claim = (lots: readonly PacketLot[]) => Promise<(GrabOutcome[] | null)[]>;

/** Claims on this database, on this thread. */
export function claimIn(database: Database): Claim {
  return async (lots) =>
    await database.withTransaction('packet.grab', async (tx) => await claimShares(tx, lots));
}

/**
 * Claims shares for these users, in order of arrival, in the caller's transaction; one user of one packet is a batch of
 * one. The heart of the product:
 *
 *   lock the packets (batches of several processes take turns; the counters now tell the exact next shares)
 *   → the time, and what these users have already (so a repeat, and a run after a lost COMMIT, is harmless)
 *   → the next k shares → mark them by a conditional UPDATE that must affect exactly k → k grabs under unique keys
 *   → balances and k transfers → counters → outbox.
 *
 * Two round trips: all that is read, then all that is written, with the COMMIT. One trip for each statement took a
 * quarter longer for 256 grabs, and twice as long for one. So the caller's transaction ends with this.
 *
 * Locks: the packets in ascending order of id, wallets that are opened, the shares, then escrows and the other wallets in
 * ascending order of id. A single packet is waited for; of several, those that somebody holds are left out, so that nobody
 * waits for a packet that is not theirs. Each result is a grab or a refusal: NOT_FOUND, NOT_INVITED, NOT_OPEN_YET,
 * SOLD_OUT, EXPIRED, CLOSED.
 */
export async function claimShares(tx: Tx, lots: readonly PacketLot[]): Promise<(GrabOutcome[] | null)[]> {
  const [first] = lots;
  const wanted = lots.map(({ packetId, userIds }) => ({ packetId, users: [...new Set(userIds)] }));
  const [packets, [time], known] = await tx.all(
    lots.length === 1 && first !== undefined
      ? rowsOf(sql.lockPacket, [first.packetId])
      : rowsOf(sql.lockFreePackets, [lots.map(({ packetId }) => packetId)]),
    // Read by a statement that begins after the locks were got, so not from before the wait.
    rowsOf(clock),
    rowsOf(sql.lookUsersUp, [JSON.stringify(wanted.map(({ packetId, users }) => [packetId, users]))]),
  );
  const now = time?.now;
  if (now === undefined) throw new Error('the database did not tell its time');
  const locked = new Map(packets.map((packet) => [packet.id, packet]));
  const candidates = wanted.map(({ users }) => users.map((userId): Candidate => ({ userId, known: null })));
  for (const row of known) {
    const candidate = candidates[row.lot - 1]?.[row.position - 1];
    if (candidate === undefined) throw new Error('a row of nobody');
    candidate.known = row;
  }
  const decided = lots.map(({ packetId, userIds }, index) => {
    const packet = locked.get(packetId);
    return packet === undefined ? null : decide(packet, now, userIds, candidates[index] ?? []);
  });
  const granting = decided.filter((one) => one !== null && one.winners.length > 0) as Decided[];
  if (granting.length > 0) await grant(tx, granting, now);
  return decided.map((one, index) => {
    if (one !== null) return one.outcomes;
    // Left out: it is held, or does not exist, and only a look at it alone tells which.
    if (lots.length > 1) return null;
    return (lots[index]?.userIds ?? []).map(() => ({ outcome: 'refused', refusal: notFound() }));
  });
}

interface Candidate {
  userId: string;
  known: KnownRow | null;
}

type KnownRow = NonNullable<(typeof sql.lookUsersUp)['row']>;

interface Winner {
  grab: Grab;
  /** The account that receives, or null: to be opened. */
  wallet: number | null;
}

interface Decided {
  packet: sql.PacketRow;
  /** Whose shares are neighbours, and the next ones of the packet. */
  winners: Winner[];
  outcomes: GrabOutcome[];
}

/** Who gets what of a locked packet; pure. `candidates` are the users of the batch, each once, in order of arrival. */
function decide(
  packet: sql.PacketRow,
  now: Date,
  userIds: readonly string[],
  candidates: readonly Candidate[],
): Decided {
  const refusal = refusalAt(packet, now);
  // What those hear who came after the last share of this very batch.
  const tooLate: GrabOutcome = { outcome: 'refused', refusal: refusal ?? soldOut() };
  const uninvited: GrabOutcome = { outcome: 'refused', refusal: notInvited() };
  const winners: Winner[] = [];
  const outcomes = new Map<string, GrabOutcome>();
  for (const { userId, known } of candidates) {
    if (known === null) throw new Error('the database did not tell about a user');
    if (known.seq !== null) {
      const { seq, amount, grabbed_at: grabbedAt } = known;
      if (amount === null || grabbedAt === null) throw new Error('a grab without its share');
      outcomes.set(userId, {
        outcome: 'already_granted',
        packetId: packet.id,
        userId,
        seq,
        amount,
        grabbedAt,
      });
    } else if (refusal === null && packet.invited_only === 1 && known.invited === 0) {
      outcomes.set(userId, uninvited);
    } else if (refusal === null && packet.claimed_count + winners.length < packet.share_count) {
      // The amounts came by position in the list, whoever stands there.
      const amount = candidates[winners.length]?.known?.next_amount ?? null;
      const seq = packet.claimed_count + 1 + winners.length;
      if (amount === null) throw new Error(`share ${seq} of packet ${packet.id} is not there`);
      const grab = { packetId: packet.id, userId, seq, amount, grabbedAt: now };
      winners.push({ grab, wallet: known.wallet });
      outcomes.set(userId, { outcome: 'granted', ...grab });
    } else outcomes.set(userId, tooLate);
  }
  const answered = new Set<string>();
  return {
    packet,
    winners,
    outcomes: userIds.map((userId) => {
      const outcome = outcomes.get(userId) ?? tooLate;
      // The same user twice in one batch: the second is a repeat.
      if (outcome.outcome === 'granted' && answered.has(userId))
        return { ...outcome, outcome: 'already_granted' };
      answered.add(userId);
      return outcome;
    }),
  };
}

/** Writes these grabs, at least one of each packet, and commits. */
async function grant(tx: Tx, granting: readonly Decided[], now: Date): Promise<void> {
  const sorted = [...granting].sort((a, b) => (a.packet.id < b.packet.id ? -1 : 1));
  const runs = sorted.flatMap(({ packet, winners }) => [
    packet.id,
    packet.claimed_count + 1,
    packet.claimed_count + winners.length,
  ]);
  const rows = sorted.map(({ packet, winners }) => [
    packet.id,
    winners.map(({ grab: { seq, userId, amount } }) => [seq, userId, amount]),
  ]);
  const grabCount = sorted.reduce((sum, { winners }) => sum + winners.length, 0);
  await tx.finish(
    ...openingSteps(sorted),
    changeOf(sql.claimShares(sorted.length), runs, grabCount),
    // Not counted here: payGrabs finds as many as it must, or fails.
    changeOf(sql.insertGrabs, [now, JSON.stringify(rows)]),
    balancesStep(balanceChanges(sorted)),
    changeOf(sql.payGrabs(sorted.length), runs, grabCount),
    ...countSteps(sorted, now),
  );
}

/** Opens the wallets that are missing, those of one currency in one step. */
function openingSteps(granting: readonly Decided[]): readonly Step<unknown>[] {
  const byCurrency = new Map<string, Map<string, number>>();
  for (const { packet, winners } of granting)
    for (const { grab, wallet } of winners) {
      if (wallet !== null) continue;
      const amounts = byCurrency.get(packet.currency) ?? new Map<string, number>();
      byCurrency.set(packet.currency, amounts);
      add(amounts, grab.userId, grab.amount);
    }
  return [...byCurrency]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([currency, amounts]) => openWalletsStep(currency, amounts));
}

/** Of the escrows, and of the wallets that exist already. */
function balanceChanges(granting: readonly Decided[]): Map<number, number> {
  const changes = new Map<number, number>();
  for (const { packet, winners } of granting)
    for (const { grab, wallet } of winners) {
      add(changes, packet.escrow_account_id, -grab.amount);
      if (wallet !== null) add(changes, wallet, grab.amount);
    }
  return changes;
}

/** Brings the packets' counters up, ends those whose last share is gone, and announces the grabs. */
function countSteps(granting: readonly Decided[], now: Date): readonly Step<unknown>[] {
  const messages: Message[] = [];
  const counts = granting.map(({ packet, winners }) => {
    const claimedCount = packet.claimed_count + winners.length;
    const claimedAmount = winners.reduce((sum, { grab }) => sum + grab.amount, packet.claimed_amount);
    const isLast = claimedCount === packet.share_count;
    const seqs = { first: packet.claimed_count + 1, last: claimedCount };
    messages.push({ topic: 'packet.grabbed', subjectId: packet.id, seqs });
    if (isLast) messages.push({ topic: 'packet.sold_out', subjectId: packet.id });
    return [packet.id, packet.claimed_count, claimedCount, claimedAmount, isLast ? 1 : 0];
  });
  return [changeOf(sql.countClaims, [JSON.stringify(counts), now], counts.length), appendStep(messages, now)];
}

function add<Key>(sums: Map<Key, number>, key: Key, amount: number): void {
  sums.set(key, (sums.get(key) ?? 0) + amount);
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
