import type { Tx } from '../../../src/database/database.ts';
import { statement } from '../../../src/database/statement.ts';
import { groupBy } from '../../../src/group-by.ts';
import { netChanges, type Posting } from '../../../src/ledger/ledger.ts';
import { ensureAccounts } from '../../../src/ledger/post.ts';
import { addToBalances, insertTransfers } from '../../../src/ledger/sql.ts';
import { append, type Message } from '../../../src/outbox/append.ts';
import type { RedisGrab } from './redis-first.ts';

/**
 * Writes grabs that Redis has decided into the books, exactly as the service does: shares marked, grabs, wallets,
 * transfers, counters, outbox. Grabs of many packets go into one transaction, by one statement for each table,
 * whatever the number of packets. Times are those of the grabs, by the clock of the process that served them.
 */
interface PacketRow {
  id: string;
  currency: string;
  escrow_account_id: number;
  share_count: number;
  claimed_count: number;
}

const lockPackets = statement<PacketRow>(
  'redis_first.lock_packets',
  `SELECT id, currency, escrow_account_id, share_count, claimed_count
   FROM packets WHERE id IN (?) ORDER BY id FOR UPDATE`,
);

const idColumn = "CHAR(26) CHARACTER SET ascii PATH '$[0]'";

/**
 * Marks the shares `[[packet, seq], …]`, each looked up by its key. Ranges of seq from a joined table no index
 * serves: with `[[packet, first, last], …]` each batch read the whole packet, 350 ms for 400,000 shares.
 */
const markShares = statement(
  'redis_first.mark_shares',
  `UPDATE JSON_TABLE(?, '$[*]' COLUMNS (packet_id ${idColumn}, seq INT UNSIGNED PATH '$[1]')) AS claimed
   STRAIGHT_JOIN packet_shares s ON s.packet_id = claimed.packet_id AND s.seq = claimed.seq
   SET s.claimed = 1 WHERE s.claimed = 0`,
);

const insertGrabs = statement(
  'redis_first.insert_grabs',
  'INSERT INTO grabs (packet_id, seq, user_id, amount, grabbed_at) VALUES ?',
);

/** Adds `[[packet, count, amount, time of the last grab], …]` to the counters. */
const countClaims = statement(
  'redis_first.count_claims',
  `UPDATE JSON_TABLE(?, '$[*]' COLUMNS (packet_id ${idColumn}, added_count INT UNSIGNED PATH '$[1]',
     added_amount BIGINT PATH '$[2]', last_at DATETIME(3) PATH '$[3]')) AS added
   STRAIGHT_JOIN packets p ON p.id = added.packet_id
   SET p.finished_at = IF(p.claimed_count + added.added_count = p.share_count, added.last_at, NULL),
     p.status = IF(p.claimed_count + added.added_count = p.share_count, 'SOLD_OUT', 'OPEN'),
     p.claimed_amount = p.claimed_amount + added.added_amount,
     p.claimed_count = p.claimed_count + added.added_count
   WHERE p.status = 'OPEN'`,
);

/** The grabs of one packet that are new to the database: neighbours, from the one after its counter. */
interface Run {
  packet: PacketRow;
  grabs: RedisGrab[];
}

/**
 * Stores these grabs, each packet's in order of seq, and returns how many were new. Repeating it is harmless: the
 * locked counter of a packet tells which of its grabs are there, and the unique keys of `grabs` have the last word.
 * Locks the packets in ascending order of id, then as a grab does.
 */
export async function persist(tx: Tx, records: readonly RedisGrab[]): Promise<number> {
  const byPacket = groupBy(records, ({ packetId }) => packetId);
  const packets = await tx.rows(lockPackets, [[...byPacket.keys()].sort()]);
  if (packets.length !== byPacket.size) throw new Error('a grab of an unknown packet');
  const runs = packets
    .map((packet) => newOf(packet, byPacket.get(packet.id) ?? []))
    .filter(({ grabs }) => grabs.length > 0);
  const grabs = runs.flatMap((run) => run.grabs);
  if (grabs.length === 0) return 0;
  const shares = grabs.map(({ packetId, seq }) => [packetId, seq]);
  const marked = await tx.change(markShares, [JSON.stringify(shares)]);
  if (marked.affectedRows !== grabs.length) throw new Error('shares were marked before');
  const rows = grabs.map((grab) => [
    grab.packetId,
    grab.seq,
    grab.userId,
    grab.amount,
    textOf(grab.grabbedAt),
  ]);
  await tx.change(insertGrabs, [rows]);
  await payOut(tx, runs);
  await count(tx, runs);
  return grabs.length;
}

function newOf(packet: PacketRow, grabs: readonly RedisGrab[]): Run {
  const fresh = grabs.filter(({ seq }) => seq > packet.claimed_count);
  for (const [index, { seq }] of fresh.entries()) {
    if (seq !== packet.claimed_count + 1 + index) throw new Error(`grab ${seq} came before its time`);
  }
  return { packet, grabs: fresh };
}

async function payOut(tx: Tx, runs: readonly Run[]): Promise<void> {
  const [currency = ''] = new Set(runs.map(({ packet }) => packet.currency));
  if (runs.some(({ packet }) => packet.currency !== currency)) throw new Error('one currency is enough here');
  const users = new Set(runs.flatMap(({ grabs }) => grabs.map(({ userId }) => userId)));
  const wallets = await ensureAccounts(tx, [...users], currency, 'wallet');
  const postings = runs.flatMap(({ packet, grabs }) =>
    grabs.map((grab): Posting & { at: string } => ({
      debitAccountId: packet.escrow_account_id,
      creditAccountId: wallets.get(grab.userId) ?? 0,
      amount: grab.amount,
      reason: 'grab',
      reference: `${grab.packetId}:${grab.seq}`,
      at: textOf(grab.grabbedAt),
    })),
  );
  // As `post` does it, but for the time: here each transfer has that of its grab.
  const changes = netChanges(postings);
  const { affectedRows } = await tx.change(addToBalances, [JSON.stringify(changes)]);
  if (affectedRows !== changes.length) throw new Error('a balance did not change');
  const rows = postings.map((posting) => [
    posting.debitAccountId,
    posting.creditAccountId,
    currency,
    posting.amount,
    posting.reason,
    posting.reference,
    posting.at,
  ]);
  await tx.change(insertTransfers, [rows]);
}

async function count(tx: Tx, runs: readonly Run[]): Promise<void> {
  // A grab that was served by another process may have an earlier time than the one before it.
  const lastAt = ({ grabs }: Run): Date =>
    new Date(Math.max(...grabs.map(({ grabbedAt }) => grabbedAt.getTime())));
  const added = runs.map((run) => [
    run.packet.id,
    run.grabs.length,
    run.grabs.reduce((sum, { amount }) => sum + amount, 0),
    textOf(lastAt(run)),
  ]);
  const { affectedRows } = await tx.change(countClaims, [JSON.stringify(added)]);
  if (affectedRows !== runs.length) throw new Error('the counters of a packet moved under its lock');
  const messages = runs.flatMap(({ packet, grabs }): Message[] => {
    const first = packet.claimed_count + 1;
    const last = packet.claimed_count + grabs.length;
    const grabbed: Message = { topic: 'packet.grabbed', subjectId: packet.id, seqs: { first, last } };
    return last === packet.share_count
      ? [grabbed, { topic: 'packet.sold_out', subjectId: packet.id }]
      : [grabbed];
  });
  await append(
    tx,
    messages,
    runs.map(lastAt).reduce((a, b) => (a > b ? a : b)),
  );
}

/** As the database reads it: formatting it here, once, is much cheaper than the driver's way with a Date. */
function textOf(time: Date): string {
  return time.toISOString().slice(0, 23).replace('T', ' ');
}
