import { assert } from 'chai';
import { GroupCommit, type Lot, type RunBatch } from '../../src/packet/group-commit.ts';
import { Refusal } from '../../src/refusal.ts';

/** A door that opens when told to. */
function gate(): { open: () => void; opened: Promise<void> } {
  let open = (): void => {};
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { open, opened };
}

const turn = async (): Promise<void> =>
  await new Promise((resolve) => {
    setImmediate(() => setImmediate(resolve));
  });

const codeOf = async (work: Promise<unknown>): Promise<string> => {
  try {
    await work;
    return 'answered';
  } catch (error) {
    return error instanceof Refusal ? error.code : (error as Error).message;
  }
};

/** Runs each lot of a batch by itself. */
const each =
  (run: (key: string, requests: number[]) => Promise<number[]>): RunBatch<number, number> =>
  async (lots) =>
    await Promise.all(lots.map(async ({ key, requests }) => await run(key, requests)));

/** What a batch consists of, for comparison. */
const shape = (lots: readonly Lot<number>[]): string =>
  lots.map(({ key, requests }) => `${key}:${requests.join(',')}`).join(' ');

describe('group commit', () => {
  it('an idle key starts at once and alone; who arrives meanwhile goes together, in order', async () => {
    const batches: number[][] = [];
    const first = gate();
    const group = new GroupCommit<number, number>(
      each(async (_, requests) => {
        batches.push(requests);
        if (batches.length === 1) await first.opened;
        return requests;
      }),
    );
    const answers = [group.submit('k', 0)];
    await turn();
    for (let request = 1; request <= 5; request += 1) answers.push(group.submit('k', request));
    first.open();
    assert.deepEqual(await Promise.all(answers), [0, 1, 2, 3, 4, 5]);
    assert.deepEqual(batches, [[0], [1, 2, 3, 4, 5]]);
  });

  it('a hot key starves no other: keys take turns', async () => {
    const order: string[] = [];
    const group = new GroupCommit<number, number>(
      each(async (key, requests) => {
        order.push(key);
        await turn();
        return requests;
      }),
      { batchesInFlight: 1, batchSize: 10 },
    );
    const hot = Array.from({ length: 200 }, async (_, request) => await group.submit('hot', request));
    const cold = ['a', 'b', 'c'].map(async (key) => await group.submit(key, 1));
    await Promise.all([...hot, ...cold]);
    assert.deepEqual(order.slice(0, 4), ['hot', 'a', 'b', 'c']);
    assert.equal(order.length, 23);
  });

  it('one bad request fails alone; its neighbours are answered', async () => {
    const group = new GroupCommit<number, number>(
      each(async (_, requests) => {
        await turn();
        if (requests.includes(13)) throw new Error('unlucky');
        return requests.map((request) => request * 2);
      }),
    );
    const answers = await Promise.all(
      Array.from({ length: 30 }, async (_, request) => await codeOf(group.submit('k', request))),
    );
    assert.deepEqual(
      answers
        .map((answer, request) => (answer === 'answered' ? null : request))
        .filter((request) => request !== null),
      [13],
    );
  });

  it('splits a crowd in two halves that take turns, and leaves a small one whole', async () => {
    const sizes = async (crowd: number): Promise<number[]> => {
      const batches: number[] = [];
      const group = new GroupCommit<number, number>(
        each(async (_, requests) => {
          batches.push(requests.length);
          await turn();
          return requests;
        }),
        { splitAbove: 10, batchSize: 100 },
      );
      const person = async (request: number): Promise<void> => {
        for (let times = 0; times < 6; times += 1) await group.submit('k', request);
      };
      await Promise.all(Array.from({ length: crowd }, async (_, request) => await person(request)));
      return batches;
    };
    const small = await sizes(10);
    assert.deepEqual(small, [10, 10, 10, 10, 10, 10]);
    const large = await sizes(80);
    assert.equal(
      large.reduce((sum, size) => sum + size, 0),
      480,
    );
    // Answers go out a few at a time, so a turn may begin before the last few have come again.
    for (const size of large.slice(0, 8)) assert.approximately(size, 40, 16);
    assert.isAtMost(Math.max(...(await sizes(400))), 100);
  });

  it('begins the next transaction before it answers the last one', async () => {
    const events: string[] = [];
    const first = gate();
    const group = new GroupCommit<number, number>(
      each(async (_, requests) => {
        events.push(`begins ${requests[0]}`);
        if (requests[0] === 0) await first.opened;
        return requests;
      }),
    );
    const answers = [0, 1].map(async (request) => {
      // The second comes while the first is in its transaction.
      if (request === 1) await turn();
      await group.submit('k', request);
      events.push(`answered ${request}`);
    });
    await turn();
    await turn();
    first.open();
    await Promise.all(answers);
    assert.deepEqual(events, ['begins 0', 'begins 1', 'answered 0', 'answered 1']);
  });

  it('past its limits it refuses with BUSY: length of a queue, length in all, age', async () => {
    const held = gate();
    const group = new GroupCommit<number, number>(
      each(async (_, requests) => {
        await held.opened;
        return requests;
      }),
      { queueLength: 2, totalLength: 3, waitMs: 100, batchesInFlight: 1 },
    );
    const running = codeOf(group.submit('a', 0));
    await turn();
    const waiting = [group.submit('a', 1), group.submit('a', 2)].map(codeOf);
    assert.equal(await codeOf(group.submit('a', 3)), 'BUSY', 'the queue of this key is full');
    const other = codeOf(group.submit('b', 4));
    assert.equal(await codeOf(group.submit('c', 5)), 'BUSY', 'all queues together are full');
    assert.deepEqual(
      await Promise.all([...waiting, other]),
      ['BUSY', 'BUSY', 'BUSY'],
      'they waited too long',
    );
    held.open();
    assert.equal(await running, 'answered');
    assert.equal(group.waiting, 0);
  });

  it('closing answers those that wait and takes no more', async () => {
    const group = new GroupCommit<number, number>(
      each(async (_, requests) => {
        await turn();
        return requests;
      }),
    );
    const answers = Array.from({ length: 10 }, async (_, request) => await group.submit('k', request));
    const closed = group.close();
    assert.equal(await codeOf(group.submit('k', 11)), 'BUSY');
    await closed;
    assert.lengthOf(await Promise.all(answers), 10);
  });

  it('closing waits until the last answer is out, however many there are', async () => {
    const group = new GroupCommit<number, number>(
      each(async (_, requests) => await Promise.resolve(requests)),
    );
    let answered = 0;
    for (let request = 0; request < 1_000; request += 1)
      void group.submit('k', request).then(() => (answered += 1));
    await group.close();
    assert.equal(answered, 1_000);
  });

  it('keys that wait go into one transaction, as many as it has room for', async () => {
    const batches: string[] = [];
    const first = gate();
    const group = new GroupCommit<number, number>(
      async (lots) => {
        batches.push(shape(lots));
        if (batches.length === 1) await first.opened;
        return lots.map(({ requests }) => requests.map((request) => request * 2));
      },
      { batchesInFlight: 1, batchSize: 4 },
    );
    const answers = [group.submit('a', 0)];
    await turn();
    answers.push(group.submit('b', 1), group.submit('c', 2), group.submit('a', 3), group.submit('b', 4));
    answers.push(group.submit('d', 5), group.submit('e', 6));
    first.open();
    assert.deepEqual(await Promise.all(answers), [0, 2, 4, 6, 8, 10, 12]);
    assert.deepEqual(batches, ['a:0', 'b:1,4 c:2 d:5', 'e:6 a:3']);
  });

  it('a key that somebody else holds comes again alone, in its order, and keeps nobody', async () => {
    const batches: string[] = [];
    const first = gate();
    const held = gate();
    const answered: number[] = [];
    const group = new GroupCommit<number, number>(
      async (lots) => {
        batches.push(shape(lots));
        if (batches.length === 1) await first.opened;
        if (lots.length === 1 && lots[0]?.key === 'held') await held.opened;
        return lots.map(({ key, requests }) => (key === 'held' && lots.length > 1 ? null : requests));
      },
      { batchesInFlight: 2 },
    );
    const submit = async (key: string, request: number): Promise<void> => {
      answered.push(await group.submit(key, request));
    };
    const all = [submit('x', 0), submit('y', 0)];
    await turn();
    all.push(submit('held', 1), submit('held', 2), submit('z', 3));
    first.open();
    await turn();
    await turn();
    all.push(submit('held', 4), submit('z', 5));
    await turn();
    await turn();
    assert.includeMembers(answered, [3, 5], 'its neighbours did not wait');
    assert.notInclude(answered, 1);
    held.open();
    await Promise.all(all);
    assert.include(batches, 'held:1,2');
    assert.deepEqual(answered.slice(-3), [1, 2, 4]);
    await group.close();
  });

  it('one bad key fails alone; the others of its transaction are answered', async () => {
    const first = gate();
    const sizes: number[] = [];
    const group = new GroupCommit<number, number>(
      async (lots) => {
        sizes.push(lots.length);
        if (sizes.length === 1) await first.opened;
        if (lots.some(({ key }) => key === 'k7')) throw new Error('unlucky');
        return lots.map(({ requests }) => requests);
      },
      { batchesInFlight: 1 },
    );
    const opening = group.submit('first', 0);
    await turn();
    const answers = Array.from({ length: 20 }, async (_, key) => await codeOf(group.submit(`k${key}`, key)));
    first.open();
    await opening;
    const told = await Promise.all(answers);
    assert.equal(sizes[1], 20, 'they went together first');
    assert.deepEqual(
      told.flatMap((answer, key) => (answer === 'answered' ? [] : [`${key} ${answer}`])),
      ['7 unlucky'],
    );
  });
});
