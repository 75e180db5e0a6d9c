import { assert } from 'chai';
import { openGate, type Gate, type GateOptions } from '../../src/gate/gate.ts';
import { Metrics } from '../../src/observe/metrics.ts';
import { Proxy } from '../support/proxy.ts';
import { freePort, TestRedis } from '../support/redis.ts';
import { count, recovered, until, warned } from './support.ts';

const packet = '01M8QNQXPHXEAR1V9RG1F10WV1';
/** Where a test waits for it to pass; elsewhere Redis gets more time, so that counts are exact on a busy machine. */
const timeoutMs = 50;

describe('the gate', () => {
  let redis: TestRedis;
  let lines: Record<string, unknown>[];
  let metrics: Metrics;
  const gates: Gate[] = [];
  before(async function () {
    this.timeout(600_000);
    redis = await TestRedis.start();
  });
  beforeEach(async () => {
    lines = [];
    metrics = new Metrics();
    await redis.client.flushall();
    await redis.client.config('RESETSTAT');
  });
  afterEach(async () => {
    await Promise.all(gates.splice(0).map(async (gate) => await gate.close()));
  });
  after(async () => await redis.stop());

  async function open(options: Partial<GateOptions> = {}): Promise<Gate> {
    const keep = (message: unknown, more: unknown): unknown =>
      lines.push({ message, ...(more as Record<string, unknown>) });
    const log = { warn: keep, info: keep } as unknown as GateOptions['log'];
    const gate = await openGate({
      url: redis.url,
      limit: 10,
      windowMs: 60_000,
      timeoutMs: 500,
      log,
      metrics,
      ...options,
    });
    gates.push(gate);
    return gate;
  }

  const burst = async (gate: Gate, requests: number, size = 1): Promise<number> => {
    const answers = await Promise.all(
      Array.from({ length: requests }, async () => await gate.admit(packet, size)),
    );
    return answers.reduce((sum, { admitted }) => sum + admitted, 0);
  };

  const metric = async (name: string): Promise<number> => {
    const line = new RegExp(`^luckyledger_gate_${name.replaceAll(/[{}"]/g, '\\$&')} (\\d+)$`, 'm');
    return Number(line.exec(await metrics.registry.metrics())?.[1] ?? NaN);
  };

  it('requests of one packet in one turn share one question, and the first ones are admitted', async () => {
    const gate = await open();
    await gate.admit('01M8QNQXPHXEAR1V9RG1F10WV2', 1);
    await redis.client.config('RESETSTAT');
    const answers = await Promise.all(Array.from({ length: 64 }, async () => await gate.admit(packet, 1)));
    assert.equal(await redis.scriptCalls(), 1);
    assert.deepEqual(
      answers.map(({ admitted }) => admitted),
      Array.from({ length: 64 }, (_, index) => (index < 10 ? 1 : 0)),
    );
    for (const { admitted, retryAfterSeconds } of answers)
      assert.isTrue(
        admitted === 1 ? retryAfterSeconds === 0 : retryAfterSeconds > 50 && retryAfterSeconds <= 60,
      );
    assert.equal(await metric('shed_total'), 54);
    assert.equal(await metric('open'), 0);
  });

  it('each packet has a window of its own, under its own key', async () => {
    const gate = await open();
    assert.equal(await burst(gate, 20), 10);
    assert.equal((await gate.admit('01M8QNQXPHXEAR1V9RG1F10WV2', 7)).admitted, 7);
    assert.equal(await redis.client.get(`gate:{${packet}}`), '10');
    assert.equal(await redis.client.get('gate:{01M8QNQXPHXEAR1V9RG1F10WV2}'), '7');
  });

  it('batches and single requests of one turn are admitted in order, each whole', async () => {
    const gate = await open();
    const answers = await Promise.all([1, 1, 8, 5, 1].map(async (size) => await gate.admit(packet, size)));
    assert.deepEqual(
      answers.map(({ admitted }) => admitted),
      [1, 1, 8, 0, 0],
    );
    assert.equal(await redis.scriptCalls(), 1);
    assert.equal(await metric('shed_total'), 6);
  });

  it('a frozen Redis costs some timeouts, then nothing; one warning, and one line when it is back', async () => {
    const gate = await open({ timeoutMs });
    await gate.admit(packet, 1);
    redis.freeze();
    try {
      for (let asked = 0; asked < 3; asked += 1) {
        const begun = performance.now();
        assert.equal(await burst(gate, 20), 20, 'all are admitted');
        const took = performance.now() - begun;
        assert.isAtLeast(took, 45);
        assert.isBelow(took, 1_000);
      }
      assert.isTrue(gate.open);
      const begun = performance.now();
      assert.equal(await burst(gate, 1_000), 1_000);
      assert.isBelow(performance.now() - begun, 45, 'Redis is not asked');
      assert.equal(await metric('open'), 1);
      assert.equal(await metric('failures_total{reason="timeout"}'), 3);
      // Probes go on, and say nothing.
      await until('a probe failed', async () => (await metric('failures_total{reason="timeout"}')) >= 4);
      await until(
        'a new connection is not ready',
        async () => (await metric('failures_total{reason="connection"}')) >= 1,
      );
    } finally {
      redis.thaw();
    }
    await until('the circuit is closed', () => !gate.open);
    assert.equal(count(lines, warned), 1);
    assert.equal(count(lines, recovered), 1);
    await redis.client.del(`gate:{${packet}}`);
    assert.equal(await burst(gate, 20), 10, 'it sheds again');
  });

  it('a short pause is one failure, whatever the load, and no outage', async () => {
    const gate = await open({ timeoutMs });
    await gate.admit(packet, 1);
    redis.freeze();
    const waiting = Array.from({ length: 20 }, async (_, turn) => {
      for (let turns = 0; turns < turn; turns += 1) await new Promise(setImmediate);
      return await gate.admit(packet, 1);
    });
    await Promise.all(waiting);
    redis.thaw();
    assert.isFalse(gate.open);
    await until('it answers again', async () => (await gate.admit(packet, 100)).admitted === 0);
    assert.isEmpty(lines);
  });

  it('an answer that came while this process was busy is heeded, however late it is read', async () => {
    const gate = await open({ timeoutMs });
    await until('all is taken', async () => (await gate.admit(packet, 10)).admitted === 0);
    const asked = gate.admit(packet, 1);
    await new Promise(setImmediate);
    const busyUntil = performance.now() + 4 * timeoutMs;
    while (performance.now() < busyUntil) {
      // Nothing is read meanwhile.
    }
    assert.equal((await asked).admitted, 0);
  });

  it('CLIENT PAUSE changes latency only', async () => {
    const gate = await open({ timeoutMs });
    await gate.admit(packet, 1);
    await redis.client.client('PAUSE', 1_500, 'WRITE');
    while (!gate.open) assert.equal(await burst(gate, 20), 20);
    await until('the circuit is closed', () => !gate.open);
    assert.equal(count(lines, warned), 1);
    assert.equal(count(lines, recovered), 1);
  });

  it('a Redis that dies under the requests: all are admitted; back again, it counts', async () => {
    const gate = await open();
    assert.equal(await burst(gate, 20), 10);
    await redis.kill();
    try {
      await until('the circuit is open', async () => {
        assert.equal(await burst(gate, 20), 20);
        return gate.open;
      });
    } finally {
      await redis.restart();
    }
    await until('the circuit is closed', () => !gate.open);
    assert.equal(await burst(gate, 20), 10);
    assert.equal(count(lines, warned), 1);
    assert.equal(count(lines, recovered), 1);
    assert.isAbove(await metric('unasked_total'), 0);
  });

  it('a connection that is cut is made again without a word', async () => {
    const gate = await open();
    await gate.admit(packet, 1);
    await redis.client.client('KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
    await until('it counts again', async () => (await gate.admit(packet, 100)).admitted === 0);
    assert.isFalse(gate.open);
    assert.isEmpty(lines);
  });

  it('a connection whose other end is gone without a word is given up for another', async () => {
    const { proxy, url } = await Proxy.before(redis.url);
    try {
      const gate = await open({ url, timeoutMs });
      proxy.silent = true;
      proxy.cutAfter = () => proxy.cuts === 0;
      await until('the circuit is open', async () => {
        assert.equal((await gate.admit(packet, 1)).admitted, 1);
        return gate.open;
      });
      assert.equal(proxy.cuts, 1);
      await until('the circuit is closed', () => !gate.open);
      assert.equal(count(lines, warned), 1);
      assert.equal(count(lines, recovered), 1);
    } finally {
      await Promise.all(gates.splice(0).map(async (gate) => await gate.close()));
      await proxy.close();
    }
  });

  it('a Redis that answers and does not count is an outage too, and one', async () => {
    const gate = await open();
    await redis.client.config('SET', 'maxmemory', '1');
    try {
      await until('the circuit is open', async () => {
        assert.equal((await gate.admit(packet, 1)).admitted, 1);
        return gate.open;
      });
      const before = await metric('failures_total{reason="reply"}');
      await until(
        'probes failed',
        async () => (await metric('failures_total{reason="reply"}')) >= before + 2,
      );
      assert.isTrue(gate.open);
      assert.equal(count(lines, warned), 1);
      assert.include(lines[0], { reason: 'OOM' });
    } finally {
      await redis.client.config('SET', 'maxmemory', '0');
    }
    await until('the circuit is closed', () => !gate.open);
    assert.equal(count(lines, recovered), 1);
  });

  it('no Redis at the start: open at once, one warning, and no password in it', async () => {
    const begun = performance.now();
    const gate = await open({ url: `redis://someone:hunter2@127.0.0.1:${await freePort()}/1` });
    assert.isBelow(performance.now() - begun, 1_000);
    assert.equal(await burst(gate, 500), 500);
    await until('it tried again', async () => (await metric('failures_total{reason="connection"}')) >= 2);
    assert.isTrue(gate.open);
    assert.equal(count(lines, warned), 1);
    assert.include(lines[0], { reason: 'ECONNREFUSED' });
    assert.notMatch(JSON.stringify(lines), /hunter2|someone/);
  });

  it('a frozen Redis at the start delays it by one timeout', async () => {
    redis.freeze();
    try {
      const begun = performance.now();
      const gate = await open({ timeoutMs });
      assert.isBelow(performance.now() - begun, 1_000);
      assert.equal(await burst(gate, 20), 20);
      await until('the silence is told', () => gate.open);
      assert.equal(count(lines, warned), 1);
    } finally {
      redis.thaw();
    }
    await until('the circuit is closed', () => gates.every((gate) => !gate.open));
    assert.equal(count(lines, recovered), 1);
  });

  it('user, password with odd characters and database number of the URL are heeded; a wrong one is one warning', async () => {
    await redis.client.call('ACL', 'SETUSER', 'gate', 'on', '>p@ss:w/rd%é', '~gate:*', '+@all');
    try {
      const url = new URL(redis.url);
      url.username = 'gate';
      url.password = encodeURIComponent('p@ss:w/rd%é');
      url.pathname = '/3';
      const gate = await open({ url: url.href });
      assert.equal(await burst(gate, 20), 10);
      await redis.client.select(3);
      assert.equal(await redis.client.get(`gate:{${packet}}`), '10');
      assert.isEmpty(lines);

      url.password = 'hunter2';
      await redis.client.config('RESETSTAT');
      const wrong = await open({ url: url.href, metrics: new Metrics() });
      const begun = performance.now();
      const logins = async (): Promise<number> =>
        Number(/cmdstat_auth:calls=(\d+)/.exec(await redis.client.info('commandstats'))?.[1] ?? 0);
      await until('it tried again', async () => (await logins()) >= 2);
      assert.isAtLeast(performance.now() - begun, 900, 'and not in a hurry');
      assert.equal(await burst(wrong, 20), 20);
      assert.isTrue(wrong.open);
      assert.equal(count(lines, warned), 1);
      assert.include(lines[0], { reason: 'WRONGPASS' });
      assert.notInclude(JSON.stringify(lines), 'hunter2');
    } finally {
      await redis.client.select(0);
      await redis.client.call('ACL', 'DELUSER', 'gate');
    }
  });

  it('closing admits what waits, says nothing, and admits what comes later', async () => {
    const gate = await open({ timeoutMs });
    await gate.admit(packet, 10);
    redis.freeze();
    try {
      const waiting = burst(gate, 5);
      await gate.close();
      assert.equal(await waiting, 5);
      assert.equal(await burst(gate, 5), 5);
    } finally {
      redis.thaw();
    }
    assert.isEmpty(lines);
  });
});
