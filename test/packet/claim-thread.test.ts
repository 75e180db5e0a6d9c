import type { Worker } from 'node:worker_threads';
import { assert } from 'chai';
import { packOutcomes, unpackError, unpackOutcomes } from '../../src/packet/claim-messages.ts';
import { ClaimThread, type ClaimThreadOptions } from '../../src/packet/claim-thread.ts';
import { GrabDesk } from '../../src/packet/grab-desk.ts';
import { GrabMemory } from '../../src/packet/grab-memory.ts';
import { notFound, soldOut, type GrabOutcome } from '../../src/packet/packet.ts';
import { scrubbed } from '../../src/observe/log.ts';
import { Refusal } from '../../src/refusal.ts';
import { people, tally, TestBooks } from '../support/service.ts';

describe('the thread of the grabs', () => {
  let books: TestBooks;
  const threads: ClaimThread[] = [];
  before(async () => {
    books = await TestBooks.open();
    await books.fund('sender', 1_000_000);
  });
  afterEach(async () => {
    await Promise.all(threads.splice(0).map(async (thread) => await thread.close(5_000)));
    await books.assertClean();
  });
  after(async () => await books.close());

  async function started(options: Partial<ClaimThreadOptions> = {}) {
    const thread = await ClaimThread.start({
      databaseUrl: books.url,
      poolSize: 4,
      events: {},
      broke: (error) => assert.fail(String(error)),
      ...options,
    });
    threads.push(thread);
    return { thread, desk: new GrabDesk(books.database, {}, {}, new GrabMemory(), thread.claim) };
  }

  it('grabs as this thread does: exactly as many as there are shares, repeats with their amounts', async () => {
    const finished: string[] = [];
    const { desk } = await started({
      events: { finished: (unit, _, outcome) => finished.push(`${unit} ${outcome}`) },
    });
    const id = await books.packet({ totalAmount: 30_000, shareCount: 300 });
    const users = people(400, 'ü"\'红');
    const first = await Promise.all(users.map(async (user) => await desk.grab(id, user)));
    assert.deepEqual(tally(first), { granted: 300, SOLD_OUT: 100 });
    const inProcess = books.desk();
    for (const [index, user] of users.entries()) {
      const own = await inProcess.grab(id, user);
      const other = first[index] as GrabOutcome;
      if (own.outcome === 'refused') assert.equal(other.outcome, 'refused');
      else assert.deepEqual(other, { ...own, outcome: 'granted' });
    }
    assert.include(finished, 'packet.grab committed');
  });

  it('passes refusals on with all their words', async () => {
    const { thread } = await started();
    const opensAt = new Date(Date.now() + 3_600_000);
    const id = await books.packet({ totalAmount: 100, shareCount: 1, opensAt });
    const [outcomes] = await thread.claim([{ packetId: id, userIds: ['early'] }]);
    const [later] = outcomes ?? [];
    const refusal = later?.outcome === 'refused' ? later.refusal : null;
    assert.instanceOf(refusal, Refusal);
    assert.equal(refusal.code, 'NOT_OPEN_YET');
    assert.equal(refusal.extra['opensAt'], opensAt.toISOString());
    assert.isAbove(refusal.retryAfterSeconds ?? 0, 3_500);
    const [unknown] = await thread.claim([{ packetId: '01M8QNQXPHXEAR1V9RG1F10WV1', userIds: ['a', 'b'] }]);
    assert.deepEqual(tally(unknown ?? []), { NOT_FOUND: 2 });
  });

  it('a batch of all kinds survives the way', () => {
    const packetId = '01M8QNQXPHXEAR1V9RG1F10WV1';
    const grab = (userId: string, seq: number) => ({
      packetId,
      userId,
      seq,
      amount: 2 ** 53 - 1,
      grabbedAt: new Date(seq),
    });
    const late = soldOut();
    const outcomes: GrabOutcome[] = [
      { outcome: 'granted', ...grab('a', 1) },
      { outcome: 'refused', refusal: late },
      { outcome: 'already_granted', ...grab('b', 2) },
      { outcome: 'refused', refusal: late },
      { outcome: 'refused', refusal: notFound() },
    ];
    const back = unpackOutcomes(
      ['01M8QNQXPHXEAR1V9RG1F10WV0', packetId, 'left out', packetId],
      structuredClone(packOutcomes([[], outcomes, null, outcomes.slice(1)])),
    );
    const plain = (list: readonly GrabOutcome[]): unknown[] =>
      list.map((one) =>
        one.outcome === 'refused' ? [one.refusal.code, one.refusal.detail, one.refusal.extra] : one,
      );
    assert.deepEqual(
      back.map((list) => list && plain(list)),
      [[], plain(outcomes), null, plain(outcomes.slice(1))],
    );
  });

  it('an unexpected failure is logged as if it had happened on this thread', () => {
    const over = (error: unknown): Record<string, unknown> =>
      scrubbed(unpackError(structuredClone(scrubbed(error))));
    const own = scrubbed(new TypeError('a share is not there'));
    const back = over(new TypeError('a share is not there'));
    assert.equal(back['message'], own['message']);
    assert.include(JSON.stringify(back['stack']), 'claim-thread.test');
    const database = over(
      Object.assign(new Error('secret-value'), { errno: 1062, code: 'ER_DUP_ENTRY', sql: 's' }),
    );
    assert.deepInclude(database, { errno: 1062, errorCode: 'ER_DUP_ENTRY' });
    assert.notInclude(JSON.stringify(database), 'secret-value');
  });

  it('when it breaks in a transaction, nothing is lost: its grabs are BUSY, another thread follows, repeats succeed', async () => {
    const workers: Worker[] = [];
    const broken: unknown[] = [];
    const { desk } = await started({
      started: (worker) => void workers.push(worker),
      broke: (error) => void broken.push(error),
    });
    const id = await books.packet({ totalAmount: 500, shareCount: 5 });
    const users = people(5, 'b');
    const side = await books.sideSession();
    await side.beginTransaction();
    await side.query('SELECT * FROM packets WHERE id = ? FOR UPDATE', [id]);
    const grabbing = Promise.allSettled(users.map(async (user) => await desk.grab(id, user)));
    // Until the thread's transaction waits for the lock.
    for (let waits = 0; waits === 0;) {
      const rows = await books.query<{ trx_state: string }>(
        "SELECT trx_state FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'",
      );
      waits = rows.length;
      await books.query('DO SLEEP(0.12)');
    }
    await workers[0]?.terminate();
    for (const result of await grabbing) {
      assert.equal(result.status, 'rejected');
      const refusal = (result as PromiseRejectedResult).reason as Refusal;
      assert.equal(refusal.code, 'BUSY');
      assert.include(refusal.detail, 'not known');
    }
    assert.lengthOf(broken, 1);
    await side.rollback();
    await side.end();
    const again = async (user: string): Promise<GrabOutcome> => {
      for (;;) {
        try {
          return await desk.grab(id, user);
        } catch (error) {
          assert.equal((error as Refusal).code, 'BUSY');
          await books.query('DO SLEEP(0.05)');
        }
      }
    };
    const outcomes = await Promise.all(users.map(again));
    assert.isTrue(outcomes.every(({ outcome }) => outcome !== 'refused'));
    assert.lengthOf(workers, 2);
  });

  it('does not start without a database, and takes nothing once it is closed', async () => {
    const unreachable = new URL(books.url);
    unreachable.port = '1';
    let refused: unknown = null;
    await ClaimThread.start({
      databaseUrl: unreachable.href,
      poolSize: 1,
      events: {},
      broke: () => {},
    }).catch((error: unknown) => (refused = error));
    assert.match((refused as Error).message, /ECONNREFUSED/);
    const { thread } = await started();
    await thread.close(1_000);
    const late = await thread
      .claim([{ packetId: '01M8QNQXPHXEAR1V9RG1F10WV1', userIds: ['a'] }])
      .catch((error: unknown) => error);
    assert.equal((late as Refusal).code, 'BUSY');
  });
});
