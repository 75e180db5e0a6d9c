import { assert } from 'chai';
import { Database } from '../../src/database/database.ts';
import { createPacket } from '../../src/packet/create.ts';
import { sweepExpired } from '../../src/packet/refund.ts';
import type { Refusal } from '../../src/refusal.ts';
import { Proxy } from '../support/proxy.ts';
import { keyOnly, newPacket, people, tally, TestBooks } from '../support/service.ts';

describe('faults of the database', () => {
  let books: TestBooks;
  before(async () => {
    books = await TestBooks.open();
    await books.fund('sender', 1_000_000);
  });
  afterEach(async () => await books.assertClean());
  after(async () => await books.close());

  it('case 10: a row held for longer than the lock wait timeout, mid-grab: all or nothing, and success once it is free', async () => {
    const retries: string[] = [];
    const database = await books.another(
      { lockWaitMs: 1_000 },
      { retried: (_, cause) => retries.push(cause) },
    );
    const id = await books.packet({ totalAmount: 300, shareCount: 3, method: 'equal' });
    await books.fund('held', 1);
    const side = await books.sideSession();
    await side.beginTransaction();
    await side.query("SELECT * FROM accounts WHERE owner = 'held' FOR UPDATE");
    const grabbing = books.desk(database).grab(id, 'held');
    while (!retries.includes('1205')) await books.query('DO SLEEP(0.05)');
    const during = await books.query('SELECT * FROM grabs WHERE packet_id = ?', [id]);
    assert.lengthOf(during, 0, 'nothing of the failed attempt is there');
    await side.rollback();
    await side.end();
    assert.equal((await grabbing).outcome, 'granted');
    assert.equal(await books.balance('held'), 101);
  });

  it('case 10: held for good, the grab is BUSY and nothing was written', async () => {
    const database = await books.another({ lockWaitMs: 1_000, attempts: 2 });
    const id = await books.packet({ totalAmount: 300, shareCount: 3 });
    const side = await books.sideSession();
    await side.beginTransaction();
    await side.query('SELECT * FROM packets WHERE id = ? FOR UPDATE', [id]);
    try {
      await books.desk(database).grab(id, 'waits');
      assert.fail('granted through a lock');
    } catch (error) {
      assert.equal((error as Refusal).code, 'BUSY');
    }
    assert.lengthOf(await books.query('SELECT * FROM grabs WHERE packet_id = ?', [id]), 0);
    await side.rollback();
    await side.end();
  });

  /** Runs `work` once for each of its statements, with that one failing the first time as a deadlock does: all is rolled back. */
  async function atEachStatement(work: (database: Database, run: number) => Promise<void>): Promise<number> {
    for (let failing = 1; ; failing += 1) {
      let statements = 0;
      let failed = false;
      const retries: string[] = [];
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
      await work(database, failing);
      await database.close();
      if (!failed) return failing - 1;
      assert.deepEqual(retries, ['1213'], `statement ${failing} was retried once, as a whole`);
    }
  }

  it('case 11: a deadlock at each statement of create, grab and refund leaves no partial row', async () => {
    const ids: string[] = [];
    const create = await atEachStatement(async (database) => {
      ids.push(
        await books.packet(
          { totalAmount: 100, shareCount: 2, method: 'equal', audience: ['x', 'y'] },
          {},
          database,
        ),
      );
      await books.assertClean();
    });
    const grab = await atEachStatement(async (database, run) => {
      const id = ids[run % ids.length] ?? '';
      await books.query('INSERT IGNORE INTO packet_audience VALUES (?, ?)', [id, `z${run}`]);
      const outcome = await books.desk(database).grab(id, `z${run}`);
      assert.notEqual(outcome.outcome === 'refused' && outcome.refusal.code, 'BUSY');
      await books.assertClean();
    });
    const refund = await atEachStatement(async (database) => {
      const id = await books.packet({ totalAmount: 100, shareCount: 2 });
      await books.query(
        'UPDATE packets SET opens_at = opens_at - INTERVAL 1 HOUR, expires_at = UTC_TIMESTAMP(3) WHERE id = ?',
        [id],
      );
      assert.isAtLeast(await sweepExpired(database, 1), 1);
      await books.assertClean();
    });
    // As many statements as there are: were fewer seen, the faults were not everywhere.
    assert.isAtLeast(create, 12);
    assert.isAtLeast(grab, 8);
    assert.isAtLeast(refund, 7);
  });

  it('a real deadlock with a heavier transaction: the grab loses, runs again, and wins', async () => {
    const retries: string[] = [];
    const database = await books.another({}, { retried: (_, cause) => retries.push(cause) });
    const id = await books.packet({ totalAmount: 300, shareCount: 3, method: 'equal' });
    await books.fund('loser', 1);
    const side = await books.sideSession();
    await side.beginTransaction();
    // Heavier by the rows that it changed, so the engine ends the other one.
    for (let row = 0; row < 200; row += 1)
      await side.query("INSERT INTO accounts (owner, currency, kind) VALUES (?, 'CNY', 'wallet')", [
        `weight-${row}`,
      ]);
    await side.query("SELECT * FROM accounts WHERE owner = 'loser' FOR UPDATE");
    const grabbing = books.desk(database).grab(id, 'loser');
    await waiting(1);
    await side.query('UPDATE packets SET greeting = NULL WHERE id = ?', [id]);
    await side.rollback();
    await side.end();
    assert.equal((await grabbing).outcome, 'granted');
    assert.deepEqual(retries, ['1213']);
  });

  /** Until so many transactions wait for a lock. */
  async function waiting(count: number): Promise<void> {
    for (;;) {
      const [row] = await books.query<{ n: number }>(
        "SELECT COUNT(*) AS n FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'",
      );
      if ((row?.n ?? 0) >= count) return;
      // The engine renews this table only when nobody has read it for 0.1 s.
      await books.query('DO SLEEP(0.15)');
    }
  }

  it('a COMMIT whose answer is lost: the repeat finds the grab, the packet and the key', async () => {
    const { proxy, url } = await Proxy.before(books.url);
    const database = await Database.open(url, { poolSize: 2 });
    try {
      let cut = true;
      proxy.cutAfter = (data) => {
        if (!cut || !data.includes('COMMIT')) return false;
        cut = false;
        return true;
      };
      const request = keyOnly('fault', 'lost-commit');
      const input = newPacket({ totalAmount: 300, shareCount: 3, method: 'equal' });
      const answer = await createPacket(database, 'fault', request, input, ({ id }) => ({
        status: 201,
        body: { id },
      }));
      assert.isTrue(answer.replayed, 'the first attempt had committed');
      const { id } = answer.body as { id: string };
      assert.lengthOf(await books.query("SELECT * FROM idempotency_keys WHERE client_id = 'fault'"), 1);

      cut = true;
      const desk = books.desk(database);
      const outcomes = await Promise.all(people(3, 'lost').map(async (user) => await desk.grab(id, user)));
      assert.equal(proxy.cuts, 2);
      assert.deepEqual(tally(outcomes), { already_granted: 3 });
      for (const user of people(3, 'lost')) assert.equal(await books.balance(user), 100);
    } finally {
      await database.close();
      await proxy.close();
    }
  });

  it('a database that goes silent during COMMIT: the deadline passes, we look again, and answer what happened', async () => {
    const { proxy, url } = await Proxy.before(books.url);
    const database = await Database.open(url, { poolSize: 2, deadlineMs: 400 });
    try {
      const id = await books.packet({ totalAmount: 300, shareCount: 3, method: 'equal' });
      proxy.silent = true;
      proxy.cutAfter = (data) => proxy.cuts === 0 && data.includes('COMMIT');
      const outcome = await books.desk(database).grab(id, 'silence');
      assert.equal(proxy.cuts, 1);
      assert.equal(outcome.outcome, 'already_granted');
      assert.equal(await books.balance('silence'), 100);
    } finally {
      await database.close(1_000);
      await proxy.close();
    }
  });

  it('silent during every COMMIT: 503 that says the outcome is not known, and a repeat tells it', async () => {
    const { proxy, url } = await Proxy.before(books.url);
    const database = await Database.open(url, { poolSize: 4, deadlineMs: 300 });
    const id = await books.packet({ totalAmount: 300, shareCount: 3, method: 'equal' });
    try {
      proxy.silent = true;
      proxy.cutAfter = (data) => data.includes('COMMIT');
      const refusal = await books
        .desk(database)
        .grab(id, 'unknown')
        .catch((error: Refusal) => error);
      assert.equal((refusal as Refusal).code, 'BUSY');
      assert.match((refusal as Refusal).detail ?? '', /outcome is not known/);
    } finally {
      await database.close(1_000);
      await proxy.close();
    }
    assert.equal((await books.desk().grab(id, 'unknown')).outcome, 'already_granted');
  });

  it('a killed query is run again', async () => {
    let killed = false;
    const database = await books.another(
      {},
      {
        before: async (sql) => {
          if (killed || !sql.includes('packet.insert_grabs')) return;
          killed = true;
          await Promise.reject(Object.assign(new Error('Query execution was interrupted'), { errno: 1317 }));
        },
      },
    );
    const id = await books.packet({ totalAmount: 300, shareCount: 3 });
    assert.equal((await books.desk(database).grab(id, 'interrupted')).outcome, 'granted');
    assert.isTrue(killed);
  });

  /** As a caller does: BUSY wrote nothing, so it is repeated. */
  async function untilAnswered<T>(work: () => Promise<T>): Promise<T> {
    for (;;) {
      try {
        return await work();
      } catch (error) {
        assert.equal((error as Refusal).code, 'BUSY');
      }
    }
  }

  it('connections killed under load: every grab ends well, none twice', async () => {
    const id = await books.packet({ totalAmount: 20_000, shareCount: 2_000 });
    const desk = books.desk();
    let over = false;
    const killing = (async () => {
      while (!over) {
        const rows = await books.query<{ id: number }>(
          'SELECT id FROM information_schema.processlist WHERE user LIKE ?',
          [`${new URL(books.url).username}%`],
        );
        const victim = rows[Math.floor(Math.random() * rows.length)];
        if (victim !== undefined) await books.query(`KILL ${victim.id}`).catch(() => {});
        await books.query('DO SLEEP(0.1)');
      }
    })();
    const outcomes = [];
    for (let wave = 0; wave < 10; wave += 1) {
      outcomes.push(
        ...(await Promise.all(
          people(200, `wave${wave}`).map(
            async (user) => await untilAnswered(async () => await desk.grab(id, user)),
          ),
        )),
      );
    }
    over = true;
    await killing;
    const counts = tally(outcomes);
    assert.equal((counts['granted'] ?? 0) + (counts['already_granted'] ?? 0), 2_000, JSON.stringify(counts));
  });
});
