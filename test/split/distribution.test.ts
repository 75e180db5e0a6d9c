import { createHash } from 'node:crypto';
import { assert } from 'chai';
import { splitShares, type SplitRequest } from '../../src/packet/split/split.ts';
import { verifySplit } from '../../src/packet/split/verify.ts';

const seedOf = (name: string | number): Buffer => createHash('sha256').update(String(name)).digest();

/** Every way to write `total` as `count` ordered shares within the bounds, as `a+b+c`. */
function compositions(total: number, count: number, min: number, max: number): string[] {
  if (count === 1) return total >= min && total <= max ? [String(total)] : [];
  const ways: string[] = [];
  for (let first = min; first <= Math.min(max, total); first += 1) {
    for (const rest of compositions(total - first, count - 1, min, max)) ways.push(`${first}+${rest}`);
  }
  return ways;
}

/** Splits `draws` times with seeds that are the same in every run, so that a result cannot flicker. */
function assertUniform(request: SplitRequest, draws: number): void {
  const { totalAmount, shareCount, minShare, maxShare } = request;
  const ways = compositions(totalAmount, shareCount, minShare, maxShare ?? totalAmount);
  const counts = new Map(ways.map((way) => [way, 0]));
  for (let draw = 0; draw < draws; draw += 1) {
    const way = splitShares(request, seedOf(draw)).join('+');
    const before = counts.get(way);
    if (before === undefined) assert.fail(`${way} is not among the ${ways.length} ways`);
    counts.set(way, before + 1);
  }
  const expected = draws / ways.length;
  const chiSquare = [...counts.values()].reduce((sum, count) => sum + (count - expected) ** 2 / expected, 0);
  // Chi-square with f degrees of freedom has mean f and variance 2f; four deviations, and room for a small f.
  const freedom = ways.length - 1;
  assert.isBelow(chiSquare, freedom + 4 * Math.sqrt(2 * freedom) + 4, `${ways.length} ways`);
}

describe('split: distributions', () => {
  for (const [name, totalAmount, shareCount, minShare, maxShare] of [
    ['few cuts in a bitmap', 6, 3, 1, null],
    ['most places are cuts, so those left out are drawn', 8, 6, 1, null],
    ['every place is a cut', 5, 5, 1, null],
    ['one cut in many places, found by sorting', 100, 2, 1, null],
    ['two cuts in many places, repeats made good', 90, 3, 1, null],
    ['a minimum', 21, 4, 3, null],
    ['a maximum, drawn from the minimum up', 9, 4, 1, 4],
    ['a maximum, drawn from the maximum down', 17, 4, 2, 5],
    ['a maximum that leaves one way', 20, 4, 2, 5],
  ] as const) {
    it(`line-cut is uniform over all ways: ${name}`, () => {
      assertUniform({ method: 'line-cut', totalAmount, shareCount, minShare, maxShare }, 40_000);
    });
  }

  it('double-mean of two shares is uniform over all ways, with and without bounds', () => {
    const request: SplitRequest = {
      method: 'double-mean',
      totalAmount: 8,
      shareCount: 2,
      minShare: 1,
      maxShare: null,
    };
    assertUniform(request, 20_000);
    assertUniform({ ...request, minShare: 3 }, 20_000);
    assertUniform({ ...request, maxShare: 5 }, 20_000);
  });

  for (const method of ['double-mean', 'line-cut'] as const) {
    it(`${method} favours no position under a maximum that most draws would break`, () => {
      const request: SplitRequest = {
        method,
        totalAmount: 6_000,
        shareCount: 60,
        minShare: 1,
        maxShare: 199,
      };
      const packets = 2_000;
      const sums = new Float64Array(6);
      for (let packet = 0; packet < packets; packet += 1) {
        for (const [position, share] of splitShares(request, seedOf(packet)).entries()) {
          const tenth = Math.floor(position / 10);
          sums[tenth] = (sums[tenth] ?? 0) + share;
        }
      }
      for (const sum of sums) assert.closeTo(sum / (packets * 10), 100, 2);
    });
  }

  it('line-cut under a tight maximum takes no longer for large amounts', () => {
    // Repair in rounds needed a minute for this one; the mean is in the middle, where an exact draw is hopeless.
    const shareCount = 30_000;
    for (const [mean, max] of [
      [150_000_000_000, 300_000_000_000],
      [300_000_000_000, 300_000_000_000],
      [299_999_999_999, 300_000_000_000],
    ] as const) {
      const request: SplitRequest = {
        method: 'line-cut',
        totalAmount: shareCount * mean,
        shareCount,
        minShare: 1,
        maxShare: max,
      };
      const startMs = performance.now();
      const shares = splitShares(request, seedOf('tight'));
      assert.isBelow(performance.now() - startMs, 5_000);
      assert.isNull(verifySplit(request, shares));
    }
  });

  it('line-cut under a hopeless maximum keeps its shares different: repair does not level them', () => {
    const request: SplitRequest = {
      method: 'line-cut',
      totalAmount: 100_000,
      shareCount: 1_000,
      minShare: 1,
      maxShare: 199,
    };
    const shares = splitShares(request, seedOf('varied'));
    assert.isNull(verifySplit(request, shares));
    assert.isAbove(new Set(shares).size, 100);
  });
});
