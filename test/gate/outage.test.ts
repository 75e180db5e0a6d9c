import { assert } from 'chai';
import { people } from '../support/service.ts';
import { keyOf, Setting } from './setting.ts';
import { count, grab, grabPatiently, recovered, tallyOf, until, warned, type Answer } from './support.ts';

describe('case 16: outages of Redis and the shares', () => {
  const setting = new Setting();

  it('Redis frozen in mid-race and let go: nobody is refused meanwhile, one warning', async () => {
    const { service, lines } = await setting.serve({ limit: 5, windowMs: 60_000 });
    const id = await setting.books.packet({ totalAmount: 10_000, shareCount: 100 });
    const before = await Promise.all(
      people(10, 'before').map(async (user) => await grab(service.address, id, user)),
    );
    assert.deepEqual(tallyOf(before), { 201: 5, SHED: 5 });
    setting.redis.freeze();
    try {
      const during: Answer[] = [];
      for (let wave = 0; wave < 9; wave += 1) {
        const users = people(10, `during${wave}`);
        during.push(...(await Promise.all(users.map(async (user) => await grab(service.address, id, user)))));
      }
      assert.deepEqual(tallyOf(during), { 201: 90 });
    } finally {
      setting.redis.thaw();
    }
    await until('the gate has Redis again', () => count(lines, recovered) === 1);
    assert.equal(count(lines, warned), 1);
    assert.deepInclude(await grab(service.address, id, 'after'), { status: 429, code: 'SHED' });
    await setting.redis.client.del(keyOf(id));
    const after = await Promise.all(
      people(5, 'after').map(async (user) => await grab(service.address, id, user)),
    );
    assert.deepEqual(tallyOf(after), { 201: 5 });
    assert.deepInclude(await grab(service.address, id, 'late'), { status: 429, code: 'SHED' });
  });

  it('CLIENT PAUSE in mid-race changes latency only', async () => {
    const { service, lines } = await setting.serve({ limit: 1_000, windowMs: 1_000 });
    const id = await setting.books.packet({ totalAmount: 10_000, shareCount: 100 });
    await setting.redis.client.client('PAUSE', 2_500, 'ALL');
    const answers: Answer[] = [];
    for (let wave = 0; wave < 5; wave += 1) {
      const users = people(20, `paused${wave}`);
      answers.push(...(await Promise.all(users.map(async (user) => await grab(service.address, id, user)))));
    }
    assert.deepEqual(tallyOf(answers), { 201: 100 });
    await until('the gate has Redis again', () => count(lines, recovered) === 1);
    assert.equal(count(lines, warned), 1);
  });

  it('Redis killed in mid-race and come back, two processes: all n are granted, each warns once, and it sheds again', async () => {
    const limit = 10;
    const both = await Promise.all([setting.serveElsewhere(limit, 600), setting.serveElsewhere(limit, 600)]);
    const addressOf = (index: number): string => both[index % 2]?.address ?? '';
    const id = await setting.books.packet({ totalAmount: 20_000, shareCount: 200 });
    const racing = Promise.all(
      people(120, 'race').map(async (user, index) => await grabPatiently(addressOf(index), id, user)),
    );
    await until('the race is on', async () => (await setting.grantedCount(id)) >= limit);
    await setting.redis.kill();
    const during = await Promise.all(
      people(70, 'down').map(async (user, index) => await grab(addressOf(index), id, user)),
    );
    assert.deepEqual(tallyOf(during), { 201: 70 });
    assert.deepEqual(tallyOf(await racing), { 201: 120 });
    await setting.redis.restart();
    for (const { lines } of both) {
      await until('the gate has Redis again', () => count(lines, recovered) === 1);
      assert.equal(count(lines, warned), 1);
    }
    const after = await Promise.all(
      people(60, 'after').map(async (user, index) => await grab(addressOf(index), id, user)),
    );
    assert.isAbove(tallyOf(after)['SHED'] ?? 0, 0);
    const rest = await Promise.all(
      people(60, 'after').map(async (user, index) => await grabPatiently(addressOf(index), id, user)),
    );
    assert.equal(await setting.grantedCount(id), 200);
    assert.isUndefined(tallyOf(rest)['SHED']);
  });

  it('without Redis at the start the service starts, grants, and warns once', async () => {
    await setting.redis.kill();
    try {
      const begun = performance.now();
      const { service, lines } = await setting.serve({ limit: 1, windowMs: 60_000 });
      assert.isBelow(performance.now() - begun, 5_000);
      const id = await setting.books.packet({ totalAmount: 1_000, shareCount: 50 });
      const answers = await Promise.all(
        people(50, 'alone').map(async (user) => await grab(service.address, id, user)),
      );
      assert.deepEqual(tallyOf(answers), { 201: 50 });
      assert.equal(count(lines, warned), 1);
    } finally {
      await setting.redis.restart();
    }
  });
});
