import { assert } from 'chai';
import { GrabDesk } from '../../src/packet/grab-desk.ts';
import { GrabMemory } from '../../src/packet/grab-memory.ts';
import { closePacket } from '../../src/packet/refund.ts';
import { people, tally, TestBooks } from '../support/service.ts';

describe('what a process remembers of packets', () => {
  let books: TestBooks;
  before(async () => {
    books = await TestBooks.open();
    await books.fund('sender', 1_000_000);
  });
  afterEach(async () => await books.assertClean());
  after(async () => await books.close());

  /** Runs `work` while every other transaction that wants this packet's row waits. */
  async function withPacketLocked(id: string, work: () => Promise<void>): Promise<void> {
    const side = await books.sideSession();
    await side.beginTransaction();
    await side.query('SELECT * FROM packets WHERE id = ? FOR UPDATE', [id]);
    try {
      await work();
    } finally {
      await side.rollback();
      await side.end();
    }
  }

  /** Counts the transactions of a desk of its own, with a memory of this size. */
  async function countingDesk(memory = new GrabMemory()) {
    const counts = { transactions: 0, statements: 0 };
    const database = await books.another(
      { lockWaitMs: 1_000, attempts: 1 },
      {
        finished: () => void (counts.transactions += 1),
        before: async () => {
          counts.statements += 1;
          await Promise.resolve();
        },
      },
    );
    return { desk: new GrabDesk(database, {}, {}, memory), counts };
  }

  it('answers strangers and repeats of a sold-out packet without a statement, also winners of another process', async () => {
    const id = await books.packet({ totalAmount: 1_000, shareCount: 10 });
    const other = books.desk();
    const won = await Promise.all(people(10, 'w').map(async (user) => await other.grab(id, user)));
    const { desk, counts } = await countingDesk();
    assert.equal((await desk.grab(id, 'late')).outcome, 'refused');
    counts.statements = 0;
    for (const [index, user] of people(10, 'w').entries()) {
      const repeat = await desk.grab(id, user);
      assert.deepEqual(repeat, { ...won[index], outcome: 'already_granted' });
    }
    const strangers = await Promise.all(people(50, 's').map(async (user) => await desk.grab(id, user)));
    assert.deepEqual(tally(strangers), { SOLD_OUT: 50 });
    assert.deepEqual(counts, { transactions: 1, statements: 0 });
  });

  it('answers a repeat on an open packet without the packet’s lock', async () => {
    const id = await books.packet({ totalAmount: 1_000, shareCount: 10 });
    const { desk, counts } = await countingDesk();
    const first = await desk.grab(id, 'early');
    await withPacketLocked(id, async () => {
      assert.deepEqual(await desk.grab(id, 'early'), {
        ...first,
        outcome: 'already_granted',
      } as typeof first);
    });
    assert.equal(counts.transactions, 1);
  });

  it('reads without a lock or a transaction what it may not hold in memory', async () => {
    const id = await books.packet({ totalAmount: 1_000, shareCount: 10 });
    const other = books.desk();
    const won = await Promise.all(people(10, 'w').map(async (user) => await other.grab(id, user)));
    const { desk, counts } = await countingDesk(new GrabMemory({ grabsOfPacket: 3 }));
    assert.equal((await desk.grab(id, 'late')).outcome, 'refused');
    await withPacketLocked(id, async () => {
      const again = await Promise.all(people(10, 'w').map(async (user) => await desk.grab(id, user)));
      assert.deepEqual(
        again,
        won.map((grab) => ({ ...grab, outcome: 'already_granted' }) as typeof grab),
      );
      assert.deepEqual(
        tally(await Promise.all(people(20, 's').map(async (user) => await desk.grab(id, user)))),
        {
          SOLD_OUT: 20,
        },
      );
    });
    assert.equal(counts.transactions, 1);
  });

  it('keeps a closed packet’s winners, and tells the others that it was closed', async () => {
    const id = await books.packet({ totalAmount: 1_000, shareCount: 10 });
    const { desk } = await countingDesk();
    const first = await desk.grab(id, 'winner');
    await closePacket(books.database, id, () => {});
    for (let times = 0; times < 2; times += 1) {
      assert.deepEqual(tally([await desk.grab(id, 'late')]), { CLOSED: 1 });
      assert.deepEqual(await desk.grab(id, 'winner'), {
        ...first,
        outcome: 'already_granted',
      } as typeof first);
    }
  });

  it('answers right with room for next to nothing', async () => {
    const memory = new GrabMemory({ packets: 2, grabs: 3, grabsOfPacket: 2 });
    const { desk } = await countingDesk(memory);
    const ids = await Promise.all(
      Array.from({ length: 5 }, async () => await books.packet({ totalAmount: 300, shareCount: 3 })),
    );
    const seen = new Map<string, unknown>();
    for (let round = 0; round < 3; round += 1) {
      for (const id of ids) {
        for (const user of people(5, 'p')) {
          const { outcome, ...rest } = await desk.grab(id, user);
          const key = `${id} ${user}`;
          if (round === 0) seen.set(key, outcome === 'refused' ? outcome : rest);
          else assert.deepEqual(outcome === 'refused' ? outcome : rest, seen.get(key));
        }
      }
    }
    assert.lengthOf(
      [...seen.values()].filter((value) => value === 'refused'),
      10,
    );
  });

  it('keeps no more packets than its limit, also such as nobody grabbed from', async () => {
    const memory = new GrabMemory({ packets: 2 });
    const ids: string[] = [];
    for (let index = 0; index < 4; index += 1) {
      const id = await books.packet({ totalAmount: 100, shareCount: 1 });
      memory.finish(await closePacket(books.database, id, () => {}), index % 2 === 0 ? [] : null);
      ids.push(id);
    }
    assert.deepEqual(
      ids.map((id) => memory.finished(id) !== null),
      [false, false, true, true],
    );
  });

  it('takes an id for unknown for a moment only', () => {
    const memory = new GrabMemory({ unknownMs: 0 });
    memory.learnUnknown('01M8QNQXPHXEAR1V9RG1F10WV1');
    assert.isNull(memory.recall('01M8QNQXPHXEAR1V9RG1F10WV1', 'u'));
    const longer = new GrabMemory();
    longer.learnUnknown('01M8QNQXPHXEAR1V9RG1F10WV1');
    assert.equal(longer.recall('01M8QNQXPHXEAR1V9RG1F10WV1', 'u')?.outcome, 'refused');
  });
});
