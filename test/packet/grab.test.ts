import { assert } from 'chai';
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
      const repeat = again[index];
      assert.deepInclude(repeat, { seq: outcome.seq, amount: outcome.amount, userId: outcome.userId });
      assert.equal(await books.balance(outcome.userId), outcome.amount);
    }
  });
});
