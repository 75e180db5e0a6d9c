import { assert } from 'chai';
import { GroupCommit } from '../../src/packet/group-commit.ts';
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

describe('group commit', () => {
  it('an idle key starts at once and alone; who arrives meanwhile goes together, in order', async () => {
    const batches: number[][] = [];
    const first = gate();
    const group = new GroupCommit<number, number>(async (_, requests) => {
      batches.push(requests);
      if (batches.length === 1) await first.opened;
      return requests;
    });
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
      async (key, requests) => {
        order.push(key);
        await turn();
        return requests;
      },
      { keysInFlight: 1, batchSize: 10 },
    );
    const hot = Array.from({ length: 200 }, async (_, request) => await group.submit('hot', request));
    const cold = ['a', 'b', 'c'].map(async (key) => await group.submit(key, 1));
    await Promise.all([...hot, ...cold]);
    assert.deepEqual(order.slice(0, 4), ['hot', 'a', 'b', 'c']);
    assert.equal(order.length, 23);
  });

  it('one bad request fails alone; its neighbours are answered', async () => {
    const group = new GroupCommit<number, number>(async (_, requests) => {
      await turn();
      if (requests.includes(13)) throw new Error('unlucky');
      return requests.map((request) => request * 2);
    });
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
        async (_, requests) => {
          batches.push(requests.length);
          await turn();
          return requests;
        },
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
    const group = new GroupCommit<number, number>(async (_, requests) => {
      events.push(`begins ${requests[0]}`);
      if (requests[0] === 0) await first.opened;
      return requests;
    });
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
      async (_, requests) => {
        await held.opened;
        return requests;
      },
      { queueLength: 2, totalLength: 3, waitMs: 100, keysInFlight: 1 },
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
    const group = new GroupCommit<number, number>(async (_, requests) => {
      await turn();
      return requests;
    });
    const answers = Array.from({ length: 10 }, async (_, request) => await group.submit('k', request));
    const closed = group.close();
    assert.equal(await codeOf(group.submit('k', 11)), 'BUSY');
    await closed;
    assert.lengthOf(await Promise.all(answers), 10);
  });

  it('closing waits until the last answer is out, however many there are', async () => {
    const group = new GroupCommit<number, number>(async (_, requests) => await Promise.resolve(requests));
    let answered = 0;
    for (let request = 0; request < 1_000; request += 1)
      void group.submit('k', request).then(() => (answered += 1));
    await group.close();
    assert.equal(answered, 1_000);
  });
});
