import { assert } from 'chai';
import { people, tally, TestBooks } from '../support/service.ts';

describe('a packet of 1,000,000 shares', () => {
  let books: TestBooks;
  before(async () => {
    books = await TestBooks.open();
    await books.fund('sender', 100_000_000);
  });
  after(async () => await books.close());

  it('is created in under 60 s with under 300 MB more memory, does not block its sender, and is grabbed from', async function () {
    this.timeout(120_000);
    const before = process.memoryUsage().rss;
    let peak = before;
    const watch = setInterval(() => {
      peak = Math.max(peak, process.memoryUsage().rss);
    }, 20);
    const started = performance.now();
    const creating = books.packet({ totalAmount: 100_000_000 - 10, shareCount: 1_000_000 });
    // Meanwhile the sender's wallet is free.
    await books.packet({ totalAmount: 10, shareCount: 2 });
    const id = await creating;
    clearInterval(watch);
    assert.isBelow(performance.now() - started, 60_000);
    assert.isBelow(peak - before, 300 * 2 ** 20);
    const desk = books.desk();
    const outcomes = await Promise.all(people(1_000, 'm').map(async (user) => await desk.grab(id, user)));
    assert.deepEqual(tally(outcomes), { granted: 1_000 });
    await books.assertClean();
  });
});
