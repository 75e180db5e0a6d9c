import { assert } from 'chai';
import { people, TestBooks } from '../support/service.ts';
import {
  assertBooked,
  commandLine,
  hold,
  isThere,
  Serving,
  sumOf,
  tallied,
  until,
  type Answer,
} from './support.ts';

const shareCount = 300;
const userCount = 400;

describe('several workers', function () {
  this.timeout(60_000);
  let books: TestBooks;
  let serving: Serving | null = null;

  before(async () => {
    books = await TestBooks.open();
    await books.fund('sender', 1_000_000_000);
  });
  afterEach(async () => {
    await serving?.end();
    serving = null;
    await books.assertClean();
  });
  after(async () => await books.close());

  const start = async (
    ...[workers, more, program]: [number, NodeJS.ProcessEnv?, string[]?]
  ): Promise<Serving> => {
    serving = await Serving.start(books, workers, more, program);
    return serving;
  };
  const packet = async (): Promise<string> => await books.packet({ totalAmount: 30_000, shareCount });
  const grabAll = async (
    service: Serving,
    id: string,
    users: readonly string[],
    broken?: { count: number },
  ): Promise<Answer[]> => await Promise.all(users.map(async (user) => await service.grab(id, user, broken)));

  const grabAllOnce = async (service: Serving, id: string, users: readonly string[]): Promise<Answer[]> =>
    await Promise.all(users.map(async (user) => await service.grabOnce(id, user)));

  for (const workers of [1, 2, 4]) {
    it(`${workers} of them: ${userCount} users, ${shareCount} shares, exactly all shares granted, and repeats tell the same`, async () => {
      const service = await start(workers);
      const id = await packet();
      const users = people(userCount);
      const first = await grabAll(service, id, users);
      assert.deepEqual(tallied(first), { granted: shareCount, SOLD_OUT: userCount - shareCount });
      assert.equal(await assertBooked(books, id, first), shareCount);
      const again = await grabAll(service, id, users);
      assert.deepEqual(tallied(again), { already_granted: shareCount, SOLD_OUT: userCount - shareCount });
      assert.deepEqual(
        again.map(({ body }) => body['amount']),
        first.map(({ body }) => body['amount']),
      );
      const pids = (): unknown[] =>
        service.logged().flatMap(({ route, pid }) => (route === 'grab' ? [pid] : []));
      await until('a line for each request', () => pids().length === 2 * userCount);
      const expected = workers === 1 ? [undefined] : service.workerPids();
      assert.sameMembers(
        [...new Set(pids())],
        expected,
        'every worker took part, and is named if there are several',
      );
    });
  }

  it('share one new TOKEN_SECRET when none is given, and no secret is on a command line', async () => {
    const service = await start(2);
    const issued = await service.post('/v1/participant-tokens', { userId: 'ann' });
    const token = String(issued.body['token']);
    const id = await packet();
    const answers = await Promise.all(
      people(8).map(async () => await service.post(`/v1/packets/${id}/grabs`, { userId: 'ann' }, token)),
    );
    assert.isTrue(answers.every(({ status }) => status === 200 || status === 201));
    const used = (): unknown[] =>
      service.logged().flatMap(({ route, pid }) => (route === 'grab' ? [pid] : []));
    await until('a line for each request', () => used().length === 8);
    assert.sameMembers([...new Set(used())], service.workerPids());
    const password = new URL(books.url).password;
    for (const pid of [service.child.pid ?? 0, ...service.workerPids()]) {
      assert.include(commandLine(pid), 'serve');
      assert.notInclude(commandLine(pid), password);
    }
    assert.lengthOf(
      service.logged().filter(({ message }) => String(message).startsWith('TOKEN_SECRET')),
      1,
      'the parent warns, once',
    );
  });

  it('kill -9 of one in the middle of a race: who was cut off repeats, all shares are granted, it is started again', async () => {
    const service = await start(2);
    const id = await packet();
    const users = people(userCount);
    const before = await grabAll(service, id, users.slice(0, 100));
    const { release } = await hold(books, id);
    const broken = { count: 0 };
    const racing = grabAll(service, id, users.slice(100), broken);
    await service.grabsArrived(userCount);
    const [victim = 0] = service.workerPids();
    process.kill(victim, 'SIGKILL');
    await service.line(
      new RegExp(`"signal":"SIGKILL".*"workerPid":${victim}|"workerPid":${victim}.*"signal":"SIGKILL"`),
    );
    await until('somebody to be cut off', () => broken.count > 0);
    await release();
    const answers = [...before, ...(await racing)];
    const counts = tallied(answers);
    assert.equal(counts['SOLD_OUT'], userCount - shareCount);
    // Whose answer was lost after the commit hears of it by the repeat.
    assert.equal((counts['granted'] ?? 0) + (counts['already_granted'] ?? 0), shareCount);
    assert.equal(await assertBooked(books, id, answers), shareCount);
    await until('another worker', () => service.workerPids().length === 3);
    const { text } = await service.get('/metrics');
    assert.equal(sumOf(text, 'luckyledger_workers_alive'), 2);
    assert.equal(sumOf(text, 'luckyledger_worker_restarts_total'), 1);
  });

  it('SIGTERM in the middle of a race: what runs is finished, every answered grab is booked, exit code 0', async () => {
    const service = await start(4);
    const id = await packet();
    const users = people(250);
    const before = await grabAll(service, id, users.slice(0, 50));
    const { release } = await hold(books, id);
    const racing = grabAllOnce(service, id, users.slice(50));
    await service.grabsArrived(250);
    const begun = performance.now();
    service.child.kill('SIGTERM');
    await service.line(/Stopping/);
    // Again, and otherwise: it does no harm.
    service.child.kill('SIGTERM');
    service.child.kill('SIGINT');
    // New callers are refused, and none of them is left waiting until the end.
    const refused = async (): Promise<void> =>
      await until('the port to be closed', async () => {
        const answered = service.get('/healthz').then(() => true);
        return !(await answered.catch(() => false));
      });
    await Promise.all(Array.from({ length: 20 }, refused));
    await release();
    const answers = [...before, ...(await racing)];
    assert.deepEqual(await service.exit, { code: 0, signal: null });
    assert.isBelow(performance.now() - begun, 10_000);
    assert.deepEqual(tallied(answers), { granted: 250 });
    assert.equal(await assertBooked(books, id, answers), 250);
    assert.notInclude(service.lines.join('\n'), 'will be started again');
  });

  it('kill -9 of the parent: the workers finish what runs and end by themselves', async () => {
    const service = await start(2);
    const id = await packet();
    const { release } = await hold(books, id);
    const racing = grabAllOnce(service, id, people(50));
    await service.grabsArrived(50);
    service.child.kill('SIGKILL');
    assert.deepEqual(await service.exit, { code: null, signal: 'SIGKILL' });
    await release();
    const answers = await racing;
    await service.allEnded;
    assert.deepEqual(tallied(answers), { granted: 50 });
    assert.equal(await assertBooked(books, id, answers), 50);
  });

  it('by npm start: serves, and ends with exit code 0 at SIGTERM', async () => {
    const service = await start(2, {}, ['src/start.mjs']);
    const id = await packet();
    const answers = await grabAll(service, id, people(20));
    assert.deepEqual(tallied(answers), { granted: 20 });
    service.child.kill('SIGTERM');
    assert.deepEqual(await service.exit, { code: 0, signal: null });
    await service.allEnded;
    assert.isEmpty(service.workerPids().filter(isThere));
  });
});
