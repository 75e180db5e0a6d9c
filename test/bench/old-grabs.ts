import { payGrabs } from '../../src/packet/sql.ts';
import type { TestBooks } from '../support/service.ts';
import { packets } from './scenarios.ts';

const sharesOfPacket = 1_000_000;
const rowsAtOnce = 50_000;

/**
 * Fills the tables with the past: sold-out packets of a million shares each, with grabs, transfers, wallets and
 * counters, so that the books are right. Each of a million users has one grab in each packet. Written by the
 * administrator in large steps, since grabbing them one by one would take an hour.
 */
export async function makeOldGrabs(
  books: TestBooks,
  count: number,
  told: (done: number) => void,
): Promise<void> {
  const packetCount = Math.round(count / sharesOfPacket);
  if (packetCount === 0) return;
  const ids = await packets(books, packetCount, sharesOfPacket);
  for (const [index, id] of ids.entries()) {
    for (let seq = 0; seq < sharesOfPacket; seq += rowsAtOnce) {
      await grabRange(books, id, seq + 1, seq + rowsAtOnce);
      told(index * sharesOfPacket + seq + rowsAtOnce);
    }
    await finish(books, id);
  }
}

async function grabRange(books: TestBooks, id: string, first: number, last: number): Promise<void> {
  const range = [id, first, last];
  await books.admin.beginTransaction();
  await books.query(
    `INSERT INTO grabs (packet_id, seq, user_id, amount, grabbed_at)
     SELECT packet_id, seq, CONCAT('old-', seq), amount, UTC_TIMESTAMP(3) FROM packet_shares
     WHERE packet_id = ? AND seq BETWEEN ? AND ?`,
    range,
  );
  await books.query(
    `INSERT INTO accounts (owner, currency, kind, balance)
     SELECT user_id, 'CNY', 'wallet', amount FROM grabs WHERE packet_id = ? AND seq BETWEEN ? AND ?
     ON DUPLICATE KEY UPDATE balance = balance + VALUES(balance)`,
    range,
  );
  await books.query(payGrabs(1).text, range);
  await books.query(
    'UPDATE packet_shares SET claimed = 1 WHERE packet_id = ? AND seq BETWEEN ? AND ?',
    range,
  );
  await books.admin.commit();
}

async function finish(books: TestBooks, id: string): Promise<void> {
  await books.admin.beginTransaction();
  await books.query(
    `UPDATE packets JOIN accounts ON accounts.id = packets.escrow_account_id
     SET accounts.balance = 0, packets.claimed_count = packets.share_count,
       packets.claimed_amount = packets.total_amount, packets.status = 'SOLD_OUT',
       packets.finished_at = UTC_TIMESTAMP(3)
     WHERE packets.id = ?`,
    [id],
  );
  await books.query(
    `INSERT INTO outbox_messages (topic, subject_id, first_seq, last_seq, created_at)
     VALUES ('packet.grabbed', ?, 1, ?, UTC_TIMESTAMP(3)), ('packet.sold_out', ?, NULL, NULL, UTC_TIMESTAMP(3))`,
    [id, sharesOfPacket, id],
  );
  await books.admin.commit();
}
