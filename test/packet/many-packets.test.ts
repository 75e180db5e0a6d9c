import { assert } from 'chai';
import { claimIn } from '../../src/packet/grab.ts';
import type { GrabOutcome } from '../../src/packet/packet.ts';
import { people, tally, TestBooks } from '../support/service.ts';

/** Several packets share a transaction; nobody may notice. */
describe('grabs of several packets in one transaction', () => {
  let books: TestBooks;
  before(async () => {
    books = await TestBooks.open();
    await books.fund('sender', 100_000_000);
    await books.fund('sender', 1_000_000, 'USD');
  });
  afterEach(async () => await books.assertClean());
  after(async () => await books.close());

  const grabs = (outcomes: GrabOutcome[] | null | undefined): string[] =>
    (outcomes ?? []).map((one) =>
      one.outcome === 'refused'
        ? one.refusal.code
        : `${one.outcome} ${one.packetId} ${one.seq} ${one.amount}`,
    );

  it('each packet decides for itself: shares, repeats, the last share, the audience, the window', async () => {
    const equal = { totalAmount: 300, shareCount: 3, method: 'equal' as const };
    const plain = await books.packet(equal);
    const short = await books.packet({ ...equal, totalAmount: 20, shareCount: 2 });
    const invited = await books.packet({ ...equal, audience: ['a', 'b'] });
    const early = await books.packet({ ...equal, opensAt: new Date(Date.now() + 3_600_000) });
    const closed = await books.packet(equal);
    await books.closePacket(closed);
    await books.desk().grab(plain, 'b');
    const results = await claimIn(books.database)([
      { packetId: short, userIds: ['a', 'a', 'b', 'c'] },
      { packetId: plain, userIds: ['b', 'c', 'a'] },
      { packetId: closed, userIds: ['a'] },
      { packetId: invited, userIds: ['c', 'b', 'a'] },
      { packetId: early, userIds: ['a'] },
    ]);
    assert.deepEqual(results.map(grabs), [
      [`granted ${short} 1 10`, `already_granted ${short} 1 10`, `granted ${short} 2 10`, 'SOLD_OUT'],
      [`already_granted ${plain} 1 100`, `granted ${plain} 2 100`, `granted ${plain} 3 100`],
      ['CLOSED'],
      ['NOT_INVITED', `granted ${invited} 1 100`, `granted ${invited} 2 100`],
      ['NOT_OPEN_YET'],
    ]);
    assert.equal(await books.balance('a'), 10 + 100 + 100);
    assert.equal(await books.balance('c'), 100);
    const [status] = await books.query<{ status: string }>('SELECT status FROM packets WHERE id = ?', [
      short,
    ]);
    assert.equal(status?.status, 'SOLD_OUT');
  });

  it('one new user who wins in two packets has one wallet with both amounts, and one for each currency', async () => {
    const first = await books.packet({ totalAmount: 7, shareCount: 1 });
    const second = await books.packet({ totalAmount: 11, shareCount: 1 });
    const dollars = await books.packet({ totalAmount: 13, shareCount: 1, currency: 'USD' });
    const claimed = await claimIn(books.database)(
      [first, second, dollars].map((packetId) => ({ packetId, userIds: ['newcomer'] })),
    );
    assert.deepEqual(tally(claimed.flatMap((outcomes) => outcomes ?? [])), { granted: 3 });
    assert.equal(await books.balance('newcomer'), 18);
    assert.equal(await books.balance('newcomer', 'USD'), 13);
  });

  it('leaves out a packet that somebody holds, and one that does not exist', async () => {
    const [held, free] = [
      await books.packet({ totalAmount: 100, shareCount: 2 }),
      await books.packet({ totalAmount: 100, shareCount: 2 }),
    ];
    const unknown = '01M8QNQXPHXEAR1V9RG1F10WV1';
    const side = await books.sideSession();
    await side.beginTransaction();
    await side.query('SELECT * FROM packets WHERE id = ? FOR UPDATE', [held]);
    const results = await claimIn(books.database)(
      [held, unknown, free].map((packetId) => ({ packetId, userIds: ['x', 'y'] })),
    );
    assert.isNull(results[0]);
    assert.isNull(results[1]);
    assert.deepEqual(tally(results[2] ?? []), { granted: 2 });
    assert.lengthOf(await books.query('SELECT * FROM grabs WHERE packet_id = ?', [held]), 0);
    await side.rollback();
    await side.end();
  });

  it('a held packet keeps only its own users waiting, who get their shares as soon as it is free', async () => {
    const [held, ...others] = await Promise.all(
      Array.from({ length: 20 }, async () => await books.packet({ totalAmount: 100, shareCount: 10 })),
    );
    const unknown = '01M8QNQXPHXEAR1V9RG1F10WV2';
    const desk = books.desk(books.database, { batchesInFlight: 3 });
    const side = await books.sideSession();
    await side.beginTransaction();
    await side.query('SELECT * FROM packets WHERE id = ? FOR UPDATE', [held]);
    const users = people(10, 'crowd');
    const grab = async (packetId: string): Promise<GrabOutcome[]> =>
      await Promise.all(users.map(async (user) => await desk.grab(packetId, user)));
    const waiting = grab(held as string);
    const free = await Promise.all([...others, unknown].map(grab));
    assert.deepEqual(tally(free.flat()), { granted: 190, NOT_FOUND: 10 });
    await side.rollback();
    await side.end();
    assert.deepEqual(tally(await waiting), { granted: 10 });
  });

  it('200 packets of 5 shares and 10 users each, two processes at once: exactly 1,000 granted, whatever they share', async () => {
    const packets: string[] = [];
    for (let index = 0; index < 200; index += 1)
      packets.push(await books.packet({ totalAmount: 5_000, shareCount: 5 }));
    const desks = [books.desk(), books.desk(await books.another())];
    // The same users everywhere, each process in another order: whoever locked out of order would deadlock.
    const users = people(10, 'everywhere');
    const all = desks.flatMap((desk, index) =>
      (index === 0 ? packets : [...packets].reverse()).flatMap((packetId) =>
        users.map(async (user) => await desk.grab(packetId, user)),
      ),
    );
    const outcomes = await Promise.all(all);
    assert.deepEqual(tally(outcomes), { granted: 1_000, already_granted: 1_000, SOLD_OUT: 2_000 });
  });

  it('case 11: a deadlock at each of its statements runs all of it again, and nothing is there twice', async () => {
    let statements = 0;
    for (let failing = 1, failed = true; failed; failing += 1) {
      const packets: string[] = [];
      for (let index = 0; index < 3; index += 1)
        packets.push(await books.packet({ totalAmount: 30, shareCount: 3 }));
      const retries: string[] = [];
      statements = 0;
      failed = false;
      const database = await books.another(
        {},
        {
          retried: (_, cause) => retries.push(cause),
          before: async (_, connection) => {
            if (failed) return;
            statements += 1;
            if (statements !== failing) return;
            failed = true;
            await connection.query('ROLLBACK');
            throw Object.assign(new Error('Deadlock found'), { errno: 1213 });
          },
        },
      );
      const lots = packets.map((packetId) => ({ packetId, userIds: ['p', `q${failing}`] }));
      const outcomes = (await claimIn(database)(lots)).flatMap((one) => one ?? []);
      assert.deepEqual(tally(outcomes), { granted: 6 });
      assert.deepEqual(retries, failed ? ['1213'] : []);
      assert.lengthOf(await books.query('SELECT * FROM grabs WHERE packet_id IN (?)', [packets]), 6);
      await database.close();
    }
    assert.isAtLeast(statements, 12, 'each statement had its turn');
  });
});
