import { Agent } from 'node:http';
import { assert } from 'chai';
import { people, TestBooks } from '../support/service.ts';
import { call, Serving, sumOf, until } from './support.ts';

describe('metrics of several workers', function () {
  this.timeout(60_000);
  let books: TestBooks;
  let service: Serving;

  before(async () => {
    books = await TestBooks.open();
    await books.fund('sender', 1_000_000);
    service = await Serving.start(books, 4);
  });
  after(async () => {
    await service.end();
    await books.assertClean();
    await books.close();
  });

  it('sum to what was sent, and stay when a worker is gone', async () => {
    const id = await books.packet({ totalAmount: 3_000, shareCount: 30 });
    await Promise.all(people(40).map(async (user) => await service.grab(id, user)));
    await Promise.all(people(5).map(async (user) => await service.grab(id, user)));
    const outcomes = (text: string): Record<string, number> => {
      const counts: Record<string, number> = {};
      for (const [, name = '', count] of text.matchAll(
        /^luckyledger_grabs_total\{outcome="(\w+)"\} (\d+)$/gm,
      ))
        counts[name] = Number(count);
      return counts;
    };
    const { text } = await service.get('/metrics');
    const { already_granted: again = 0, granted, SOLD_OUT: soldOut = 0 } = outcomes(text);
    assert.equal(granted, 30);
    assert.equal(again + soldOut, 15);
    assert.equal(sumOf(text, 'luckyledger_http_request_seconds_count'), 45, 'a histogram');
    assert.equal(sumOf(text, 'luckyledger_http_requests_total'), 45);
    assert.equal(sumOf(text, 'luckyledger_workers_alive'), 4);
    assert.equal(sumOf(text, 'luckyledger_worker_restarts_total'), 0);
    for (const name of ['nodejs_version_info', 'process_start_time_seconds', 'luckyledger_pool_in_use'])
      assert.lengthOf(text.match(new RegExp(`^${name}(\\{.*\\})? `, 'gm')) ?? [], 1, name);
    assert.equal(sumOf(text, 'nodejs_version_info'), 1);
    assert.approximately(sumOf(text, 'process_start_time_seconds'), Date.now() / 1000, 120, 'no sum');

    const taken = new Set(service.logged().flatMap(({ route, pid }) => (route === 'grab' ? [pid] : [])));
    assert.lengthOf([...taken], 4, 'every worker counted');
    const [killed = 0, ended = 0] = service.workerPids();
    process.kill(killed, 'SIGKILL');
    await until('one more', () => service.workerPids().length === 5);
    assert.deepEqual(outcomes((await service.get('/metrics')).text), outcomes(text));
    process.kill(ended, 'SIGTERM');
    await until('one more', () => service.workerPids().length === 6);
    await service.grab(id, 'user-0');
    const later = (await service.get('/metrics')).text;
    assert.equal(sumOf(later, 'luckyledger_http_requests_total'), 46);
    assert.equal(sumOf(later, 'luckyledger_http_request_seconds_count'), 46);
    assert.equal(sumOf(later, 'luckyledger_workers_alive'), 4);
    assert.equal(sumOf(later, 'luckyledger_worker_restarts_total'), 2);
  });

  it('many scrapes at once are all answered, each with the sum', async () => {
    const texts = await Promise.all(Array.from({ length: 40 }, async () => await service.get('/metrics')));
    for (const { status, text } of texts) {
      assert.equal(status, 200);
      assert.equal(sumOf(text, 'luckyledger_http_requests_total'), 46);
    }
  });

  it('a worker that hangs delays a scrape by a bounded time, and what it told last still counts', async () => {
    const [hanging = 0] = service.workerPids().slice(-1);
    process.kill(hanging, 'SIGSTOP');
    try {
      const begun = performance.now();
      // One of two in a row goes to a worker that does not hang.
      const { text } = await Promise.race([service.get('/metrics'), service.get('/metrics')]);
      assert.isBelow(performance.now() - begun, 5_000);
      assert.equal(sumOf(text, 'luckyledger_http_requests_total'), 46);
      assert.equal(sumOf(text, 'luckyledger_http_request_seconds_count'), 46);
    } finally {
      process.kill(hanging, 'SIGCONT');
    }
  });

  it("are the worker's own when the parent does not answer", async () => {
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    await call(service.address, 'GET', '/healthz', undefined, { agent });
    const parent = service.child.pid ?? 0;
    process.kill(parent, 'SIGSTOP');
    try {
      const begun = performance.now();
      const { status, text } = await service.get('/metrics', agent);
      assert.isBelow(performance.now() - begun, 5_000);
      assert.equal(status, 200);
      assert.include(text, 'luckyledger_pool_in_use');
      assert.notInclude(text, 'luckyledger_workers_alive');
    } finally {
      process.kill(parent, 'SIGCONT');
      agent.destroy();
    }
    assert.equal(sumOf((await service.get('/metrics')).text, 'luckyledger_workers_alive'), 4);
  });
});
