import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { assert } from 'chai';

const run = promisify(execFile);
const splitModule = new URL('../../src/packet/split/split.ts', import.meta.url).href;

/** Splits in a process of its own, whose highest memory use is then due to the split alone. */
async function growthOf(request: object): Promise<{ growthMiB: number; sum: number; length: number }> {
  const script = `
    const { splitShares } = await import(${JSON.stringify(splitModule)});
    const before = process.memoryUsage().rss;
    const shares = splitShares(${JSON.stringify(request)}, new Uint8Array(32));
    const growthMiB = (process.resourceUsage().maxRSS * 1024 - before) / 2 ** 20;
    console.log(JSON.stringify({ growthMiB, length: shares.length, sum: shares.reduce((sum, share) => sum + share) }));
  `;
  const { stdout } = await run(process.execPath, ['--import=tsx', '--input-type=module', '--eval', script]);
  return JSON.parse(stdout) as { growthMiB: number; sum: number; length: number };
}

describe('split: a million shares', () => {
  for (const [method, totalAmount, maxShare] of [
    ['equal', 100_000_000, null],
    ['double-mean', 100_000_000, null],
    ['line-cut', 1_000_001, null],
    ['line-cut', 30_000_000, null],
    ['line-cut', 9_007_199_254_740_991, null],
    ['line-cut', 100_000_000, 199],
  ] as const) {
    it(`${method} of ${totalAmount}, at most ${maxShare ?? 'any'}: memory grows by less than 64 MiB`, async function () {
      this.timeout(20_000);
      const result = await growthOf({
        method,
        totalAmount,
        maxShare,
        shareCount: 1_000_000,
        minShare: 1,
      });
      assert.equal(result.length, 1_000_000);
      assert.equal(result.sum, totalAmount);
      assert.isBelow(result.growthMiB, 64);
    });
  }
});
