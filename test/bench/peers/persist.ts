import { changeOf, rowsOf, type Changed, type Step, type Tx } from '../../../src/database/database.ts';
import { statement } from '../../../src/database/statement.ts';
import { groupBy } from '../../../src/group-by.ts';
import { netChanges } from '../../../src/ledger/ledger.ts';
import { openWalletsStep } from '../../../src/ledger/post.ts';
import { addToBalances, findAccountIds } from '../../../src/ledger/sql.ts';
import { appendStep, type Message } from '../../../src/outbox/append.ts';
import type { RedisGrab } from './redis-first.ts';

/**
 * Writes grabs that Redis has decided into the books, exactly as the service does: shares marked, grabs, wallets,
 * transfers, counters, outbox. Grabs of many packets go into one transaction, by one statement for each table
 * whatever the number of packets, and in as few round trips as the service needs. Times are those of the grabs, by
 * the clock of the process that served them.
 */
interface PacketRow {
  id: string;
  currency: string;
  escrow_account_id: number;
  share_count: number;
  claimed_count: number;
}

/** All packets of a benchmark have this one. */
const currency = 'CNY';

const lockPackets = statement<PacketRow>(
  'redis_first.lock_packets',
  `SELECT id, currency, escrow_account_id, share_count, claimed_count
   FROM packets WHERE id IN (?) ORDER BY id FOR UPDATE`,
);

const packetColumn = "packet_id CHAR(26) CHARACTER SET ascii PATH '$[0]'";

/**
 * Marks the shares `[[packet, seq], …]`, each looked up by its key. Ranges of seq from a joined table no index
 * serves: with `[[packet, first, last], …]` each batch read the whole packet, about 350 ms for 400,000 shares.
 */
const markShares = statement(
  'redis_first.mark_shares',
  `UPDATE JSON_TABLE(?, '$[*]' COLUMNS (${packetColumn}, seq INT UNSIGNED PATH '$[1]')) AS claimed
   STRAIGHT_JOIN packet_shares s ON s.packet_id = claimed.packet_id AND s.seq = claimed.seq
   SET s.claimed = 1 WHERE s.claimed = 0`,
);

/** `[[packet, seq, user, amount, time], …]`. */
const insertGrabs = statement(
  'redis_first.insert_grabs',
  `INSERT INTO grabs (packet_id, seq, user_id, amount, grabbed_at)
   SELECT packet_id, seq, user_id, amount, at FROM JSON_TABLE(?, '$[*]' COLUMNS (${packetColumn},
     seq INT UNSIGNED PATH '$[1]', user_id VARCHAR(64) CHARACTER SET utf8mb4 PATH '$[2]',
     amount BIGINT PATH '$[3]', at DATETIME(3) PATH '$[4]')) AS new_grab`,
);

/** As the service's, but each transfer has the time of its grab: `[[packet, seq, debit, credit, amount, time], …]`. */
const insertTransfers = statement(
  'redis_first.insert_transfers',
  `INSERT INTO transfers (debit_account_id, credit_account_id, currency, amount, reason, reference, created_at)
   SELECT debit, credit, ?, amount, 'grab', CONCAT(packet_id, ':', seq), at
   FROM JSON_TABLE(?, '$[*]' COLUMNS (${packetColumn}, seq INT UNSIGNED PATH '$[1]',
     debit BIGINT UNSIGNED PATH '$[2]', credit BIGINT UNSIGNED PATH '$[3]', amount BIGINT PATH '$[4]',
     at DATETIME(3) PATH '$[5]')) AS posting`,
);

/** Adds `[[packet, count, amount, time of the last grab], …]` to the counters. */
const countClaims = statement(
  'redis_first.count_claims',
  `UPDATE JSON_TABLE(?, '$[*]' COLUMNS (${packetColumn}, added_count INT UNSIGNED PATH '$[1]',
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
  const users = JSON.stringify([...new Set(records.map(({ userId }) => userId))]);
  const [packets, accounts] = await tx.all(
    rowsOf(lockPackets, [[...byPacket.keys()].sort()]),
    rowsOf(findAccountIds, [users, currency, 'wallet']),
  );
  if (packets.length !== byPacket.size) throw new Error('a grab of an unknown packet');
  const runs = packets
    .map((packet) => newOf(packet, byPacket.get(packet.id) ?? []))
    .filter(({ grabs }) => grabs.length > 0);
  const grabs = runs.flatMap((run) => run.grabs);
  if (grabs.length === 0) return 0;
  const wallets = new Map(accounts.map(({ owner, id }) => [owner, id]));
  const firsts = new Map<string, number>();
  for (const { userId, amount } of grabs)
    if (!wallets.has(userId)) firsts.set(userId, (firsts.get(userId) ?? 0) + amount);
  let claims = claimSteps(grabs);
  const opened = new Set<number>();
  if (firsts.size > 0) {
    const find = rowsOf(findAccountIds, [JSON.stringify([...firsts.keys()]), currency, 'wallet']);
    const [, rows] = await tx.all(openWalletsStep(currency, firsts), find, ...claims);
    for (const { id, owner } of rows) {
      wallets.set(owner, id);
      opened.add(id);
    }
    claims = [];
  }
  await tx.all(...claims, ...moneySteps(runs, wallets, opened), ...countSteps(runs));
  return grabs.length;
}

function newOf(packet: PacketRow, grabs: readonly RedisGrab[]): Run {
  if (packet.currency !== currency) throw new Error('a packet in another currency');
  const fresh = grabs.filter(({ seq }) => seq > packet.claimed_count);
  for (const [index, { seq }] of fresh.entries()) {
    if (seq !== packet.claimed_count + 1 + index) throw new Error(`grab ${seq} came before its time`);
  }
  return { packet, grabs: fresh };
}

function claimSteps(grabs: readonly RedisGrab[]): Step<Changed>[] {
  const shares = grabs.map(({ packetId, seq }) => [packetId, seq]);
  const rows = grabs.map(({ packetId, seq, userId, amount, grabbedAt }) => [
    packetId,
    seq,
    userId,
    amount,
    textOf(grabbedAt),
  ]);
  return [
    changeOf(markShares, [JSON.stringify(shares)], grabs.length),
    changeOf(insertGrabs, [JSON.stringify(rows)], grabs.length),
  ];
}

/** As the service moves money: the balances first, which locks the accounts in ascending order of id. */
function moneySteps(
  runs: readonly Run[],
  wallets: ReadonlyMap<string, number>,
  opened: ReadonlySet<number>,
): Step<Changed>[] {
  const postings = runs.flatMap(({ packet, grabs }) =>
    grabs.map((grab) => ({
      grab,
      debitAccountId: packet.escrow_account_id,
      creditAccountId: wallets.get(grab.userId) ?? 0,
      amount: grab.amount,
      reason: 'grab' as const,
      reference: `${grab.packetId}:${grab.seq}`,
    })),
  );
  const changes = netChanges(postings).filter(([id]) => !opened.has(id));
  const rows = postings.map(({ grab, debitAccountId, creditAccountId }) => [
    grab.packetId,
    grab.seq,
    debitAccountId,
    creditAccountId,
    grab.amount,
    textOf(grab.grabbedAt),
  ]);
  return [
    changeOf(addToBalances, [JSON.stringify(changes)], changes.length),
    changeOf(insertTransfers, [currency, JSON.stringify(rows)], rows.length),
  ];
}

/** Brings the counters up, ends packets with their last share, and announces the grabs: a message for each packet. */
function countSteps(runs: readonly Run[]): Step<Changed>[] {
  const added = runs.map((run) => [
    run.packet.id,
    run.grabs.length,
    run.grabs.reduce((sum, { amount }) => sum + amount, 0),
    textOf(lastAt(run)),
  ]);
  const messages = runs.flatMap(({ packet, grabs }): Message[] => {
    const first = packet.claimed_count + 1;
    const last = packet.claimed_count + grabs.length;
    const grabbed: Message = { topic: 'packet.grabbed', subjectId: packet.id, seqs: { first, last } };
    const isLast = last === packet.share_count;
    return isLast ? [grabbed, { topic: 'packet.sold_out', subjectId: packet.id }] : [grabbed];
  });
  const now = runs.map(lastAt).reduce((a, b) => (a > b ? a : b));
  return [changeOf(countClaims, [JSON.stringify(added)], runs.length), appendStep(messages, now)];
}

/** Not always the last one's: a grab that another process served may have an earlier time than the one before it. */
function lastAt({ grabs }: Run): Date {
  return new Date(Math.max(...grabs.map(({ grabbedAt }) => grabbedAt.getTime())));
}

/** As the database reads a time. */
function textOf(time: Date): string {
  return time.toISOString().slice(0, 23).replace('T', ' ');
}
