import { assert } from 'chai';
import { sweepExpired } from '../../src/packet/refund.ts';
import { people, tally, TestBooks } from '../support/service.ts';

describe('close, expiry and refund', () => {
  let books: TestBooks;
  before(async () => {
    books = await TestBooks.open();
  });
  afterEach(async () => await books.assertClean());
  after(async () => await books.close());

  it('case 7: 50 parallel closes and three sweepers on one packet refund once, and again and again nothing', async () => {
    await books.fund('closer', 1_000);
    const id = await books.packet({
      senderId: 'closer',
      totalAmount: 1_000,
      shareCount: 10,
      method: 'equal',
    });
    await books.desk().grab(id, 'lucky');
    const other = await books.another();
    await books.query(
      'UPDATE packets SET opens_at = opens_at - INTERVAL 2 SECOND, expires_at = UTC_TIMESTAMP(3) + INTERVAL 1 SECOND WHERE id = ?',
      [id],
    );
    await Promise.all([
      ...Array.from({ length: 50 }, async () => await books.closePacket(id)),
      sweepExpired(books.database),
      sweepExpired(other),
      sweepExpired(other),
    ]);
    assert.equal(await books.balance('closer'), 900);
    for (let repeat = 0; repeat < 5; repeat += 1) {
      await books.closePacket(id);
      assert.equal(await sweepExpired(other), 0);
    }
    assert.equal(await books.balance('closer'), 900);
    const refunds = await books.query<{ amount: number }>(
      "SELECT amount FROM transfers WHERE reason = 'refund' AND reference = ?",
      [id],
    );
    assert.deepEqual(refunds, [{ amount: 900 }]);
  });

  it('case 8: grabs around the expiry instant against three sweepers, 100 rounds', async () => {
    await books.fund('edge', 100_000);
    const databases = [books.database, await books.another(), await books.another()];
    const desks = [books.desk(databases[0]), books.desk(databases[1])];
    let granted = 0;
    for (let round = 0; round < 100; round += 1) {
      const id = await books.packet({ senderId: 'edge', totalAmount: 300, shareCount: 100 });
      // The instant lies a few milliseconds ahead, so that some grabs come before it and some after.
      await books.query(
        'UPDATE packets SET expires_at = UTC_TIMESTAMP(3) + INTERVAL ? MICROSECOND WHERE id = ?',
        [10_000 + (round % 10) * 2_000, id],
      );
      let over = false;
      const sweeping = databases.map(async (database) => {
        while (!over) await sweepExpired(database);
      });
      const outcomes = [];
      for (const user of people(20, `r${round}`)) {
        outcomes.push(
          ...(await Promise.all(desks.map(async (desk, index) => await desk.grab(id, `${user}-${index}`)))),
        );
      }
      while ((await sweepExpired(books.database)) > 0);
      const [row] = await books.query<{ status: string }>('SELECT status FROM packets WHERE id = ?', [id]);
      while (row?.status === 'OPEN' && (await statusOf(id)) === 'OPEN') await sweepExpired(books.database);
      over = true;
      await Promise.all(sweeping);
      const counts = tally(outcomes);
      assert.equal((counts['granted'] ?? 0) + (counts['EXPIRED'] ?? 0), 40, JSON.stringify(counts));
      granted += counts['granted'] ?? 0;
    }
    // Some of the 4,000 must have been on either side of the edge, or nothing was raced.
    assert.isAbove(granted, 0);
    assert.isBelow(granted, 4_000);
  });

  async function statusOf(id: string): Promise<string> {
    const [row] = await books.query<{ status: string }>('SELECT status FROM packets WHERE id = ?', [id]);
    return row?.status ?? '';
  }

  it('an expired packet refuses grabs before any sweeper ran, and stays EXPIRED after it', async () => {
    await books.fund('late', 100);
    const id = await books.packet({ senderId: 'late', totalAmount: 100, shareCount: 2 });
    await books.query(
      'UPDATE packets SET opens_at = opens_at - INTERVAL 1 HOUR, expires_at = UTC_TIMESTAMP(3) WHERE id = ?',
      [id],
    );
    const desk = books.desk();
    const first = await desk.grab(id, 'x');
    assert.equal(await sweepExpired(books.database), 1);
    const second = await books.desk().grab(id, 'x');
    for (const outcome of [first, second])
      assert.equal(outcome.outcome === 'refused' && outcome.refusal.code, 'EXPIRED');
    await books.closePacket(id);
    assert.equal(await books.balance('late'), 100);
  });

  it('a close in the middle of a crowd: granted + refunded = total', async () => {
    await books.fund('middle', 10_000);
    const id = await books.packet({ senderId: 'middle', totalAmount: 10_000, shareCount: 1_000 });
    const desk = books.desk();
    const closing = books.another().then(async () => await books.closePacket(id));
    const outcomes = await Promise.all(people(900, 'mid').map(async (user) => await desk.grab(id, user)));
    await closing;
    const won = outcomes.reduce(
      (sum, outcome) => sum + (outcome.outcome === 'refused' ? 0 : outcome.amount),
      0,
    );
    assert.equal(await books.balance('middle'), 10_000 - won);
    const counts = tally(outcomes);
    assert.equal((counts['granted'] ?? 0) + (counts['CLOSED'] ?? 0), 900);
  });
});
