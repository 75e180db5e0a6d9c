import { once } from 'node:events';
import { createServer } from 'node:net';
import { assert } from 'chai';
import { people, TestBooks } from '../support/service.ts';
import { hold, isThere, Serving, sumOf, tallied, until } from './support.ts';

describe('the parent of the workers', function () {
  this.timeout(60_000);
  let books: TestBooks;
  let serving: Serving | null = null;

  before(async () => {
    books = await TestBooks.open();
  });
  afterEach(async () => {
    await serving?.end();
    serving = null;
  });
  after(async () => await books.close());

  const start = async (workers: number): Promise<Serving> => {
    serving = await Serving.start(books, workers);
    return serving;
  };
  const restarts = (service: Serving): Record<string, unknown>[] =>
    service.logged().filter(({ message }) => message === 'a worker ended and will be started again');
  const last = (pids: readonly number[]): number => pids.at(-1) ?? 0;

  it('restarts a worker on the same port, even when none is left, and waits longer each time', async () => {
    const service = await start(2);
    const [first = 0, second = 0] = service.workerPids();
    process.kill(first, 'SIGKILL');
    process.kill(second, 'SIGKILL');
    await until('two others', () => service.workerPids().length === 4);
    assert.equal((await service.get('/readyz')).status, 200);
    // The log tells how it ended.
    assert.sameDeepMembers(
      restarts(service).map(({ workerPid, signal, level, restMs }) => ({ workerPid, signal, level, restMs })),
      [first, second].map((workerPid) => ({ workerPid, signal: 'SIGKILL', level: 'warn', restMs: 250 })),
    );
    process.kill(last(service.workerPids()), 'SIGKILL');
    await until('a third restart', () => restarts(service).length === 3);
    assert.equal(restarts(service)[2]?.['restMs'], 500);
  });

  it('replaces a worker that is told to end, after it has ended in good order', async () => {
    const service = await start(2);
    const [first = 0] = service.workerPids();
    process.kill(first, 'SIGTERM');
    await until('another', () => service.workerPids().length === 3);
    assert.deepInclude(restarts(service)[0], { workerPid: first, exitCode: 0 });
    // Ctrl-C reaches the workers too, and means the parent: they leave it to the parent.
    for (const pid of service.workerPids().filter(isThere)) process.kill(pid, 'SIGINT');
    assert.equal((await service.get('/healthz')).status, 200);
    assert.lengthOf(restarts(service), 1);
  });

  it('breaks the connection that was on the way to a worker that died: nobody waits for ever', async () => {
    const service = await start(2);
    const [victim = 0] = service.workerPids();
    process.kill(victim, 'SIGSTOP');
    let settled = 0;
    const outcomes = Promise.all(
      Array.from({ length: 12 }, async () => {
        const outcome = await service.get('/healthz').then(
          ({ status }) => status,
          () => 'broken',
        );
        settled += 1;
        return outcome;
      }),
    );
    await until('all but the one that was given to the stopped worker', () => settled === 11);
    process.kill(victim, 'SIGKILL');
    const told = await outcomes;
    assert.lengthOf(
      told.filter((outcome) => outcome === 200),
      11,
    );
    assert.include(told, 'broken');
  });

  it('breaks the connection that comes in when all workers have stopped to listen', async () => {
    const service = await start(2);
    await books.fund('sender', 10_000);
    const id = await books.packet({ totalAmount: 1_000, shareCount: 10 });
    const { release } = await hold(books, id);
    // Both have something to finish, and an idle connection whose end shows when they stop to listen.
    const running = Promise.all(people(4).map(async (user) => await service.grabOnce(id, user)));
    await service.grabsArrived(4);
    const sockets = await Promise.all([service.idleSocket(), service.idleSocket()]);
    const closed = Promise.all(sockets.map(async (socket) => void (await once(socket, 'close'))));
    const parent = service.child.pid ?? 0;
    process.kill(parent, 'SIGSTOP');
    const connected = await service.idleSocket(false);
    for (const pid of service.workerPids()) process.kill(pid, 'SIGTERM');
    await closed;
    process.kill(parent, 'SIGTERM');
    process.kill(parent, 'SIGCONT');
    await once(connected, 'close');
    await release();
    assert.deepEqual(tallied(await running), { granted: 4 });
    assert.deepEqual(await service.exit, { code: 0, signal: null });
    await books.assertClean();
  });

  it('ends with a clear message when the port is taken, and starts no worker', async () => {
    const other = createServer().listen(0, '127.0.0.1');
    await once(other, 'listening');
    const address = other.address();
    assert.isObject(address);
    const { port } = address as { port: number };
    serving = Serving.spawn(books, 2, { PORT: String(port) });
    assert.deepEqual(await serving.exit, { code: 2, signal: null });
    await serving.allEnded;
    assert.include(serving.lines.join('\n'), `Something listens on 127.0.0.1:${port} already`);
    other.close();
  });

  it('ends with a clear message when its workers end before they serve', async () => {
    const wrong = new URL(books.url);
    wrong.password = 'wrong';
    // The parent migrates by the administrator's URL, so that only the workers meet the wrong password.
    serving = Serving.spawn(books, 2, { DATABASE_URL: wrong.href });
    assert.deepEqual(await serving.exit, { code: 2, signal: null });
    await serving.allEnded;
    assert.match(serving.lines.join('\n'), /A worker ended before it served \(exit code 2\)/);
    assert.isEmpty(restarts(serving));
  });

  it('ends in good order when it is told to while the workers start', async () => {
    serving = Serving.spawn(books, 4);
    // One serves; the others may or may not.
    await serving.line(/a worker serves/);
    serving.child.kill('SIGTERM');
    await serving.line(/^Stopping/);
    assert.deepEqual(await serving.exit, { code: 0, signal: null });
  });

  it('kills a worker that does not end within the deadline, and says so by its exit code', async () => {
    const service = await start(2);
    const [stuck = 0] = service.workerPids();
    process.kill(stuck, 'SIGSTOP');
    const begun = performance.now();
    service.child.kill('SIGTERM');
    assert.deepEqual(await service.exit, { code: 1, signal: null });
    assert.isAtLeast(performance.now() - begun, 9_500);
    assert.isBelow(performance.now() - begun, 14_000);
    const killed = service.logged().find(({ message }) => String(message).includes('are killed'));
    assert.deepEqual(killed?.['pids'], [stuck]);
    await service.allEnded;
  });

  it('is a single process by default', async () => {
    const service = await start(1);
    assert.isEmpty(service.workerPids());
    const { text } = await service.get('/metrics');
    assert.notInclude(text, 'luckyledger_workers_alive');
    assert.isAbove(sumOf(text, 'process_start_time_seconds'), 0);
  });
});
