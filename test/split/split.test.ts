import { createHash } from 'node:crypto';
import { assert } from 'chai';
import * as fc from 'fast-check';
import { checkProof, commitmentOf, type Proof } from '../../src/packet/split/proof.ts';
import {
  splitFaults,
  splitShares,
  type SplitMethod,
  type SplitRequest,
} from '../../src/packet/split/split.ts';
import { verifySplit } from '../../src/packet/split/verify.ts';

const methods: SplitMethod[] = ['double-mean', 'line-cut', 'equal'];
const seedOf = (name: string | number): Buffer => createHash('sha256').update(String(name)).digest();
const request = (
  method: SplitMethod,
  totalAmount: number,
  shareCount: number,
  minShare = 1,
  maxShare: number | null = null,
): SplitRequest => ({
  method,
  totalAmount,
  shareCount,
  minShare,
  maxShare,
});

describe('split', () => {
  it('case 1: equal, every total of 1 to 200 among 1 to 100: exact, max − min ≤ 1, remainder first; too little refused', () => {
    for (let total = 1; total <= 200; total += 1) {
      for (let count = 1; count <= 100; count += 1) {
        const asked = request('equal', total, count);
        if (total < count) {
          assert.isNotEmpty(splitFaults(asked));
          continue;
        }
        const shares = splitShares(asked, seedOf(0));
        assert.isNull(verifySplit(asked, shares), `${total} among ${count}`);
        assert.isAtMost((shares[0] ?? 0) - (shares.at(-1) ?? 0), 1);
        assert.deepEqual(
          [...shares],
          [...shares].sort((a, b) => b - a),
        );
      }
    }
  });

  for (const method of methods) {
    it(`case 2: ${method} at the edges: total = n, n + 1, 2n; n = 1; the largest exact total`, () => {
      for (const count of [1, 2, 3, 17, 100]) {
        for (const total of [count, count + 1, 2 * count, Number.MAX_SAFE_INTEGER]) {
          const asked = request(method, total, count);
          assert.isNull(verifySplit(asked, splitShares(asked, seedOf(total))), `${total} among ${count}`);
        }
      }
    });

    it(`case 3: ${method} favours no position: 20,000 packets of 10,000 in 10, each mean within 2 % of 1,000`, () => {
      const sums = new Float64Array(10);
      for (let packet = 0; packet < 20_000; packet += 1) {
        for (const [position, share] of splitShares(request(method, 10_000, 10), seedOf(packet)).entries()) {
          sums[position] = (sums[position] ?? 0) + share;
        }
      }
      for (const sum of sums) assert.closeTo(sum / 20_000, 1_000, 20);
    });

    it(`${method} honours minimum and maximum, whatever they are`, () => {
      fc.assert(
        fc.property(
          fc.integer({ min: 1, max: 300 }),
          fc.integer({ min: 1, max: 1_000_000 }),
          fc.integer({ min: 0, max: 1_000_000 }),
          fc.double({ min: 0, max: 1, noNaN: true }),
          fc.integer(),
          (count, min, room, fill, seed) => {
            const max = min + room;
            const total = count * min + Math.floor(count * room * fill);
            const asked = request(method, total, count, min, max);
            assert.isEmpty(splitFaults(asked));
            assert.isNull(verifySplit(asked, splitShares(asked, seedOf(seed))));
          },
        ),
        { seed: 20_301, numRuns: 500 },
      );
    });

    it(`${method} is determined by its seed`, () => {
      const asked = request(method, 8_888, 10);
      assert.deepEqual(splitShares(asked, seedOf('a')), splitShares(asked, seedOf('a')));
      if (method !== 'equal')
        assert.notDeepEqual(splitShares(asked, seedOf('a')), splitShares(asked, seedOf('b')));
    });
  }

  it('pinned sequences: a change of the algorithm would break every published proof', () => {
    const seed = Buffer.alloc(32, 7);
    const largest = Number.MAX_SAFE_INTEGER;
    const pinned: [SplitRequest, number[]][] = [
      [request('equal', 1_000, 3), [334, 333, 333]],
      [request('double-mean', 1_000, 5), [259, 384, 74, 279, 4]],
      [request('double-mean', 1_000, 5, 50, 300), [235, 165, 292, 67, 241]],
      [request('line-cut', 1_000, 5), [607, 193, 31, 63, 106]],
      [request('line-cut', 8, 5), [1, 1, 4, 1, 1]],
      [request('line-cut', 1_000, 5, 50, 300), [145, 183, 229, 216, 227]],
      [request('line-cut', largest, 3), [362554580594077, 4015441344987144, 4629203329159770]],
    ];
    for (const [asked, shares] of pinned) assert.deepEqual([...splitShares(asked, seed)], shares);
    // A repaired one is too long to write down.
    const repaired = splitShares(request('line-cut', 10_100, 100, 2, 200), seed).join();
    assert.equal(
      seedOf(repaired).toString('hex'),
      '4768737efd97e11cde008527d33d559435b1eb5cef92839535b28449c5af9b56',
    );
  });

  it('the independent check finds every kind of damage', () => {
    const asked = request('double-mean', 1_000, 5, 10, 900);
    const good = [200, 200, 200, 200, 200];
    assert.isNull(verifySplit(asked, good));
    for (const bad of [
      [200, 200, 200, 200],
      [...good, 1],
      [199, 200, 200, 200, 200],
      [9, 391, 200, 200, 200],
      [901, 10, 10, 10, 69],
      [200.5, 199.5, 200, 200, 200],
      [NaN, 200, 200, 200, 200],
      [-200, 600, 200, 200, 200],
    ]) {
      assert.isString(verifySplit(asked, bad), bad.join());
    }
  });

  it('the independent check finds any fen that moves, whichever the method', () => {
    fc.assert(
      fc.property(
        fc.constantFrom(...methods),
        fc.integer({ min: 1, max: 50 }),
        fc.integer({ min: 0, max: 10_000 }),
        fc.nat(),
        fc.constantFrom(-1, 1, 0.5, NaN, -Infinity, 2 ** 53),
        (method, count, above, at, change) => {
          const asked = request(method, count + above, count);
          const shares = splitShares(asked, seedOf(at));
          assert.isNull(verifySplit(asked, shares));
          const index = at % count;
          shares[index] = (shares[index] ?? 0) + change;
          assert.isString(verifySplit(asked, shares));
          assert.isString(verifySplit(asked, shares.subarray(1)));
        },
      ),
      { seed: 20_302, numRuns: 300 },
    );
  });

  it('what is no positive exact integer is a fault, and so is a minimum of nothing', () => {
    for (const name of ['totalAmount', 'shareCount', 'minShare', 'maxShare'] as const) {
      for (const value of [0, -1, -0, 0.1, NaN, Infinity, 2 ** 53, 1e21]) {
        const faults = splitFaults({ ...request('line-cut', 100, 10, 1, 100), [name]: value });
        assert.deepEqual(
          faults.map(({ path }) => path),
          [`body.${name}`],
          `${name} ${value}`,
        );
      }
    }
  });

  it('an infeasible split throws: nobody can store one by forgetting to look at the faults', () => {
    assert.throws(() => splitShares(request('equal', 17, 18), seedOf(0)), 'infeasible');
    assert.throws(() => splitShares(request('line-cut', 101, 10, 1, 10), seedOf(0)), 'infeasible');
  });

  it('infeasible requests name their fault', () => {
    assert.deepEqual(
      splitFaults(request('equal', 17, 18)).map(({ path }) => path),
      ['body.totalAmount'],
    );
    assert.deepEqual(
      splitFaults(request('equal', 100, 10, 5, 4)).map(({ path }) => path),
      ['body.maxShare'],
    );
    assert.deepEqual(
      splitFaults(request('equal', 101, 10, 1, 10)).map(({ path }) => path),
      ['body.maxShare'],
    );
    // 2^53 − 1 twice would be a fen short if the product were rounded.
    assert.isNotEmpty(splitFaults(request('equal', Number.MAX_SAFE_INTEGER, 3, 3_002_399_751_580_331)));
  });

  it('a proof convinces, and each forged part of it does not', () => {
    const seed = seedOf('proof');
    const asked = request('line-cut', 1_000, 5);
    const proof: Proof = {
      packetId: 'P',
      seed: seed.toString('hex'),
      commitment: commitmentOf(seed, 'P'),
      split: asked.method,
      minShare: 1,
      maxShare: null,
      totalAmount: 1_000,
      shareCount: 5,
      shares: [...splitShares(asked, seed)],
    };
    assert.equal(
      proof.commitment,
      createHash('sha256')
        .update(Buffer.concat([seed, Buffer.from('P')]))
        .digest('hex'),
    );
    assert.isEmpty(checkProof(proof));
    const [first = 0, second = 0, ...rest] = proof.shares;
    for (const forged of [
      { packetId: 'Q' },
      { seed: seedOf('x').toString('hex') },
      { seed: 'zz' },
      { split: 'equal' as const },
      { shares: [first - 1, second + 1, ...rest] },
      { shareCount: 4 },
      { shareCount: 2 ** 40, totalAmount: 2 ** 50 },
      { shareCount: 1.5 },
      { shareCount: -1, shares: [] },
      { minShare: 999 },
      { minShare: 0 },
      { maxShare: 1 },
      { totalAmount: 1_000.5 },
      { totalAmount: 1_001 },
      { commitment: '' },
      { split: 'other' as 'equal' },
      { shares: [...proof.shares].reverse() },
      { shares: proof.shares.slice(1) },
      { shares: [...proof.shares, 1] },
    ]) {
      assert.isNotEmpty(checkProof({ ...proof, ...forged }), JSON.stringify(forged));
    }
  });
});
