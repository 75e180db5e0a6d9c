import { assert } from 'chai';
import { takeFromWindow } from '../../src/gate/window.ts';
import { pause } from '../../src/setup/process.ts';
import { TestRedis } from '../support/redis.ts';

const key = 'gate:{test}';
const limits = { limit: 10, windowMs: 5_000 };

describe('the window of a packet', () => {
  let redis: TestRedis;
  before(async function () {
    this.timeout(600_000);
    redis = await TestRedis.start();
  });
  beforeEach(async () => await redis.client.flushall());
  after(async () => await redis.stop());

  const take = async (...runs: [size: number, times: number][]) =>
    await takeFromWindow(
      redis.client,
      key,
      limits,
      runs.map(([size, times]) => ({ size, times })),
    );
  const admitted = async (...runs: [number, number][]): Promise<number[]> => (await take(...runs)).admitted;

  it('admits up to the limit, the first ones first, and ends by itself', async () => {
    assert.deepEqual(await admitted([1, 4]), [4]);
    assert.deepEqual(await admitted([1, 8]), [6]);
    const { admitted: none, leftMs } = await take([1, 1]);
    assert.deepEqual(none, [0]);
    assert.isAtMost(leftMs, limits.windowMs);
    assert.isAbove(leftMs, 0);
    assert.equal(await redis.client.get(key), '10', 'what is shed is not counted');
    assert.closeTo(await redis.client.pttl(key), leftMs, 2_000);
    await redis.client.pexpire(key, 1);
    while ((await redis.client.exists(key)) === 1) await pause(1);
    assert.deepEqual(await admitted([1, 11]), [10]);
  });

  it('counts over all connections', async () => {
    const other = redis.client.duplicate();
    const answers = await Promise.all(
      [redis.client, other].map(
        async (client) => await takeFromWindow(client, key, limits, [{ size: 1, times: 8 }]),
      ),
    );
    other.disconnect();
    assert.equal(
      answers.reduce((sum, answer) => sum + (answer.admitted[0] ?? 0), 0),
      10,
    );
  });

  it('admits a batch whole or not at all, and what is smaller still fits behind it', async () => {
    assert.deepEqual(await admitted([1, 4], [8, 1], [3, 1], [1, 5]), [4, 0, 1, 3]);
    assert.equal(await redis.client.get(key), '10');
  });

  it('admits a batch that is larger than the limit while there is room: it could never fit', async () => {
    assert.deepEqual(await admitted([1, 1], [50, 3], [1, 1]), [1, 1, 0]);
    assert.deepEqual(await admitted([50, 1]), [0]);
  });

  for (const [what, value] of [
    ['a negative number', '-5'],
    ['a fraction', '1.5'],
    ['text', 'soup'],
    ['empty text', ''],
    ['a number written otherwise', '007'],
    ['a signed number', '+5'],
    ['10^9', '1000000000'],
    ['more than a number holds', '9'.repeat(400)],
  ] as const) {
    it(`heals: ${what} without an end begins a fresh window`, async () => {
      await redis.client.set(key, value);
      assert.deepEqual(await admitted([1, 11]), [10]);
      assert.equal(await redis.client.get(key), '10');
      assert.isAtMost(await redis.client.pttl(key), limits.windowMs);
      assert.isAbove(await redis.client.pttl(key), 0);
    });
  }

  it('heals: an end further away than a window begins a fresh one', async () => {
    await redis.client.set(key, '1000000000', 'PX', limits.windowMs * 100);
    assert.deepEqual(await admitted([1, 11]), [10]);
    assert.isAtMost(await redis.client.pttl(key), limits.windowMs);
  });

  it('heals: a negative number or text begins a fresh window, whatever its end', async () => {
    for (const value of ['-5', 'soup']) {
      await redis.client.set(key, value, 'PX', 1_000);
      assert.deepEqual(await admitted([1, 11]), [10], value);
    }
  });

  it('heals: a value of another type begins a fresh window', async () => {
    await redis.client.rpush(key, 'a', 'b');
    await redis.client.pexpire(key, 1_000);
    assert.deepEqual(await admitted([1, 11]), [10]);
    await redis.client.del(key);
    await redis.client.hset(key, 'a', 'b');
    assert.deepEqual(await admitted([1, 11]), [10]);
  });

  it('10^9 within its window costs that window and no more', async () => {
    await redis.client.set(key, '1000000000', 'PX', 300);
    const { admitted: none, leftMs } = await take([1, 1]);
    assert.deepEqual(none, [0]);
    assert.isAtMost(leftMs, 300);
    await pause(leftMs + 1);
    assert.deepEqual(await admitted([1, 1]), [1]);
  });

  it('sends the script again when Redis has forgotten it', async () => {
    assert.deepEqual(await admitted([1, 1]), [1]);
    await redis.client.script('FLUSH');
    await redis.client.config('RESETSTAT');
    assert.deepEqual(await admitted([1, 1]), [1]);
    const stats = await redis.client.info('commandstats');
    assert.match(stats, /cmdstat_evalsha:calls=1,/);
    assert.match(stats, /cmdstat_eval:calls=1,/);
    assert.deepEqual(await admitted([1, 1]), [1]);
    assert.match(await redis.client.info('commandstats'), /cmdstat_eval:calls=1,/, 'known again');
    assert.equal(await redis.client.get(key), '3');
  });
});
