import { assert } from 'chai';
import { Database } from '../../src/database/database.ts';
import { grabInProcesses } from '../support/processes.ts';
import { Proxy } from '../support/proxy.ts';
import { people, tally, TestBooks } from '../support/service.ts';

describe('grab', () => {
  let books: TestBooks;
  before(async () => {
    books = await TestBooks.open();
    await books.fund('sender', 10_000_000);
  });
  afterEach(async () => await books.assertClean());
  after(async () => await books.close());

  it('gives 2,000 users on 100 shares exactly 100 grabs, and repeats of winners their amounts', async () => {
    const id = await books.packet({ totalAmount: 10_000, shareCount: 100 });
    const desk = books.desk();
    const users = people(2_000, 'crowd');
    const first = await Promise.all(users.map(async (user) => await desk.grab(id, user)));
    assert.deepEqual(tally(first), { granted: 100, SOLD_OUT: 1_900 });
    const again = await Promise.all(users.map(async (user) => await desk.grab(id, user)));
    assert.deepEqual(tally(again), { already_granted: 100, SOLD_OUT: 1_900 });
    for (const [index, outcome] of first.entries()) {
      if (outcome.outcome === 'refused') continue;
      assert.deepInclude(again[index], { seq: outcome.seq, amount: outcome.amount, userId: outcome.userId });
      assert.equal(await books.balance(outcome.userId), outcome.amount);
    }
  });

  it('case 4: 100 parallel grabs by one user are one grab, and every answer shows it', async () => {
    const id = await books.packet({ totalAmount: 1_000, shareCount: 10 });
    const desks = [books.desk(), books.desk(await books.another())];
    const outcomes = await Promise.all(
      Array.from(
        { length: 100 },
        async (_, index) => await (desks[index % 2] ?? books.desk()).grab(id, 'clicker'),
      ),
    );
    assert.deepEqual(tally(outcomes), { granted: 1, already_granted: 99 });
    const shown = new Set(
      outcomes.map((outcome) =>
        outcome.outcome === 'refused' ? 'refused' : `${outcome.seq} ${outcome.amount}`,
      ),
    );
    assert.equal(shown.size, 1);
    const [row] = await books.query<{ n: number }>('SELECT COUNT(*) AS n FROM grabs WHERE packet_id = ?', [
      id,
    ]);
    assert.equal(row?.n, 1);
  });

  it('case 5: 20 users for each share, two pools, 100 ms of latency to the database: exactly n granted', async () => {
    const { proxy, url } = await Proxy.before(books.url, 100);
    const far = [await Database.open(url), await Database.open(url)];
    try {
      const id = await books.packet({ totalAmount: 5_000, shareCount: 20 });
      const desks = far.map((database) => books.desk(database));
      const outcomes = await Promise.all(
        people(400, 'far').map(
          async (user, index) => await (desks[index % 2] ?? books.desk()).grab(id, user),
        ),
      );
      assert.deepEqual(tally(outcomes), { granted: 20, SOLD_OUT: 380 });
    } finally {
      await Promise.all(far.map(async (database) => await database.close()));
      await proxy.close();
    }
  });

  for (const count of [50, 500]) {
    it(`case 6: ${count} users on ${count} shares over two processes: all granted, never a false SOLD_OUT`, async () => {
      const id = await books.packet({ totalAmount: count * 10, shareCount: count });
      const users = people(count, `exact${count}`);
      const counts = await grabInProcesses(books.url, id, [
        users.slice(0, count / 2),
        users.slice(count / 2),
      ]);
      assert.deepEqual(counts, { granted: count });
    });
  }

  it('two processes and 20 users for each share: exactly n granted', async () => {
    const id = await books.packet({ totalAmount: 5_000, shareCount: 50 });
    const users = people(1_000, 'both');
    assert.deepEqual(await grabInProcesses(books.url, id, [users, [...users].reverse()]), {
      granted: 50,
      already_granted: 50,
      SOLD_OUT: 1_900,
    });
  });

  it('case 25: a repeat tells the original amount, also after sell-out, close and expiry', async () => {
    const [soldOut, closed] = [
      await books.packet({ totalAmount: 300, shareCount: 1 }),
      await books.packet({ totalAmount: 300, shareCount: 3 }),
    ];
    const desk = books.desk();
    for (const id of [soldOut, closed]) {
      const first = await desk.grab(id, 'early');
      if (id === closed) await books.closePacket(id);
      const late = await desk.grab(id, 'late');
      assert.equal(late.outcome === 'refused' && late.refusal.code, id === closed ? 'CLOSED' : 'SOLD_OUT');
      for (const fresh of [desk, books.desk()]) {
        const repeat = await fresh.grab(id, 'early');
        assert.deepEqual({ ...repeat, outcome: 'granted' }, first);
      }
    }
  });

  it('the first grabs get the first shares, and the stored order is the order of arrival', async () => {
    const id = await books.packet({ totalAmount: 10_000, shareCount: 200 });
    const users = people(200, 'order');
    const desk = books.desk();
    const outcomes = await Promise.all(users.map(async (user) => await desk.grab(id, user)));
    assert.deepEqual(
      outcomes.map((outcome) => (outcome.outcome === 'refused' ? 0 : outcome.seq)),
      users.map((_, index) => index + 1),
    );
  });

  it('an audience keeps others out, and lets its own in', async () => {
    const id = await books.packet({ totalAmount: 300, shareCount: 3, audience: ['a', 'A', 'ä'] });
    const desk = books.desk();
    const outcomes = await Promise.all(
      ['a', 'b', 'A', 'ä', 'Ä'].map(async (user) => await desk.grab(id, user)),
    );
    assert.deepEqual(tally(outcomes), { granted: 3, NOT_INVITED: 2 });
  });

  it('a packet is not open before its time', async () => {
    const id = await books.packet({
      totalAmount: 300,
      shareCount: 3,
      opensAt: new Date(Date.now() + 3_600_000),
    });
    const early = await books.desk().grab(id, 'early bird');
    assert.equal(early.outcome === 'refused' && early.refusal.code, 'NOT_OPEN_YET');
  });

  it('ids of every shape are not found, without a trace', async () => {
    const desk = books.desk();
    for (const id of [
      'x',
      '',
      '01J00000000000000000000000',
      "' OR 1=1 --",
      '𝟙'.repeat(26),
      'U'.repeat(26),
      '\u0000',
    ]) {
      for (let repeat = 0; repeat < 2; repeat += 1) {
        const outcome = await desk.grab(id, 'somebody');
        assert.equal(outcome.outcome === 'refused' && outcome.refusal.code, 'NOT_FOUND', id);
      }
    }
  });

  it('user ids that differ in case, accent or quotes are different persons', async () => {
    const users = ['bob', 'Bob', 'bób', "bob'", 'bob"', 'bob%', 'bob\\', 'bob🧧', 'b ob', '-- bob', '１bob'];
    const id = await books.packet({ totalAmount: 1_100, shareCount: users.length, method: 'equal' });
    const desk = books.desk();
    const outcomes = await Promise.all(users.map(async (user) => await desk.grab(id, user)));
    assert.deepEqual(tally(outcomes), { granted: users.length });
    for (const user of users) assert.equal(await books.balance(user), 100, user);
  });
});
