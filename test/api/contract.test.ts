import { readFile } from 'node:fs/promises';
import { assert } from 'chai';
import { createKey, revokeKey } from '../../src/keys/keys.ts';
import { checkProof, type Proof } from '../../src/packet/split/proof.ts';
import { problems } from '../../src/http/problem.ts';
import { TestApi } from '../support/api.ts';
import { eachLane } from '../support/lanes.ts';
import { people, TestBooks } from '../support/service.ts';

eachLane('HTTP contract', (lane) => {
  let books: TestBooks;
  let api: TestApi;
  before(async () => {
    books = await TestBooks.open();
    api = await TestApi.start(books, { fastLane: lane === 'fast lane' });
    await api.call('POST', '/v1/accounts/sender/deposits', { amount: 1_000_000, reference: 'start' });
  });
  afterEach(async () => await books.assertClean());
  after(async () => {
    await api.close();
    await books.close();
  });

  const packet = async (more: object = {}) =>
    await api.call('POST', '/v1/packets', { senderId: 'sender', totalAmount: 1_000, shareCount: 5, ...more });

  it('deposits and withdrawals: 201, 200 on a repeat, 409 for what cannot be', async () => {
    const path = '/v1/accounts/alice/deposits';
    const first = await api.call('POST', path, { amount: 500, reference: 'a' });
    assert.equal(first.status, 201);
    assert.deepInclude(first.body, { owner: 'alice', amount: 500, currency: 'CNY', reference: 'a' });
    const repeat = await api.call('POST', path, { amount: 500, reference: 'a' });
    assert.equal(repeat.status, 200);
    assert.deepEqual(repeat.body, first.body);
    assert.equal(
      (await api.call('POST', path, { amount: 501, reference: 'a' })).body['code'],
      'REFERENCE_REUSED',
    );
    const drawn = await api.call('POST', '/v1/accounts/alice/withdrawals', { amount: 200, reference: 'w' });
    assert.equal(drawn.status, 201);
    const over = await api.call('POST', '/v1/accounts/alice/withdrawals', { amount: 301, reference: 'w2' });
    assert.equal(over.status, 409);
    assert.equal(over.body['code'], 'INSUFFICIENT_FUNDS');
    assert.deepEqual((await api.call('GET', '/v1/accounts/alice')).body, {
      owner: 'alice',
      currency: 'CNY',
      balance: 300,
    });
    assert.deepEqual((await api.call('GET', '/v1/accounts/never-seen?currency=USD')).body, {
      owner: 'never-seen',
      currency: 'USD',
      balance: 0,
    });
    const past = await api.call('GET', '/v1/accounts/alice?at=2020-01-01T00:00:00Z');
    assert.equal(past.body['balance'], 0);
    const statement = await api.call('GET', '/v1/accounts/alice/transfers?limit=1');
    assert.lengthOf(statement.body['items'] as unknown[], 1);
    const rest = await api.call(
      'GET',
      `/v1/accounts/alice/transfers?cursor=${String(statement.body['nextCursor'])}`,
    );
    assert.isNull(rest.body['nextCursor']);
    // The caller's own reference, not the ledger's, which names the client too.
    assert.equal((rest.body['items'] as { reference: string }[])[0]?.reference, 'a');
  });

  it('a packet from creation to proof', async () => {
    const made = await packet({ greeting: '恭喜发财', split: 'line-cut' });
    assert.equal(made.status, 201);
    assert.deepInclude(made.body, {
      status: 'OPEN',
      totalAmount: 1_000,
      shareCount: 5,
      claimedCount: 0,
      remainingAmount: 1_000,
    });
    const id = String(made.body['id']);
    assert.equal((await api.call('GET', `/v1/packets/${id}/proof`)).body['code'], 'NOT_FINISHED');
    assert.notProperty((await api.call('GET', `/v1/packets/${id}`)).body, 'luckiest');
    const grabs = await Promise.all(
      people(8, 'p').map(async (userId) => await api.call('POST', `/v1/packets/${id}/grabs`, { userId })),
    );
    assert.deepEqual(
      grabs.map(({ status }) => status).sort((a, b) => a - b),
      [201, 201, 201, 201, 201, 410, 410, 410],
    );
    assert.equal((await api.call('POST', `/v1/packets/${id}/grabs`, { userId: 'p-0' })).status, 200);
    const list = await api.call('GET', `/v1/packets/${id}/grabs?limit=3`);
    assert.deepEqual(
      (list.body['items'] as { seq: number }[]).map(({ seq }) => seq),
      [1, 2, 3],
    );
    const end = await api.call(
      'GET',
      `/v1/packets/${id}/grabs?limit=3&cursor=${String(list.body['nextCursor'])}`,
    );
    assert.deepEqual(
      (end.body['items'] as { seq: number }[]).map(({ seq }) => seq),
      [4, 5],
    );
    const finished = await api.call('GET', `/v1/packets/${id}`);
    assert.equal(finished.body['status'], 'SOLD_OUT');
    const amounts = grabs.filter(({ status }) => status === 201).map(({ body }) => Number(body['amount']));
    assert.equal((finished.body['luckiest'] as { amount: number }).amount, Math.max(...amounts));
    const proof = (await api.call('GET', `/v1/packets/${id}/proof`)).body as unknown as Proof;
    assert.isEmpty(checkProof(proof));
    assert.equal(proof.commitment, String(made.body['commitment']));
    const sent = await api.call('GET', '/v1/users/sender/packets?role=sender&limit=1');
    assert.equal((sent.body['items'] as { id: string }[])[0]?.id, id);
    const got = await api.call('GET', '/v1/users/p-0/packets?role=grabber');
    assert.equal((got.body['items'] as { id: string }[])[0]?.id, id);
  });

  it('the luckiest grab is the earliest on a tie', async () => {
    const id = String((await packet({ split: 'equal' })).body['id']);
    for (const userId of ['one', 'two', 'three', 'four', 'five'])
      await api.call('POST', `/v1/packets/${id}/grabs`, { userId });
    assert.equal(
      ((await api.call('GET', `/v1/packets/${id}`)).body['luckiest'] as { userId: string }).userId,
      'one',
    );
  });

  it('a batch answers in the order of its list, one outcome each', async () => {
    const id = String((await packet({ shareCount: 3 })).body['id']);
    const userIds = ['x', 'y', 'x', 'z', 'w'];
    const { status, body } = await api.call('POST', `/v1/packets/${id}/grabs/batch`, { userIds });
    assert.equal(status, 200);
    const results = body['results'] as {
      userId: string;
      outcome: string;
      code?: string;
      seq?: number;
    }[];
    assert.deepEqual(
      results.map(({ userId }) => userId),
      userIds,
    );
    assert.deepEqual(
      results.map(({ outcome, code }) => code ?? outcome),
      ['granted', 'granted', 'already_granted', 'granted', 'SOLD_OUT'],
    );
    assert.deepEqual(
      results.map(({ seq }) => seq),
      [1, 2, 1, 3, undefined],
    );
    const thousand = await packet({ shareCount: 1_000 });
    const all = await api.call('POST', `/v1/packets/${String(thousand.body['id'])}/grabs/batch`, {
      userIds: people(1_000, 'batch'),
    });
    assert.equal(
      (all.body['results'] as { outcome: string }[]).filter(({ outcome }) => outcome === 'granted').length,
      1_000,
    );
  });

  it('close refunds once and answers 200 ever after', async () => {
    const id = String((await packet()).body['id']);
    const before = await books.balance('sender');
    for (let repeat = 0; repeat < 3; repeat += 1) {
      const closed = await api.call('POST', `/v1/packets/${id}/close`);
      assert.equal(closed.status, 200);
      assert.equal(closed.body['status'], 'REFUNDED');
    }
    assert.equal(await books.balance('sender'), before + 1_000);
    assert.equal(
      (await api.call('POST', `/v1/packets/${id}/grabs`, { userId: 'late' })).body['code'],
      'CLOSED',
    );
    assert.equal((await api.call('POST', '/v1/packets/unknown/close')).status, 404);
  });

  it('an idempotency key: replay, another payload, in parallel, and after a refusal', async () => {
    const body = { senderId: 'sender', totalAmount: 100, shareCount: 2 };
    const key = { 'idempotency-key': 'k-1' };
    const answers = await Promise.all(
      Array.from({ length: 20 }, async () => await api.call('POST', '/v1/packets', body, key)),
    );
    const made = answers.filter(({ status }) => status === 201);
    assert.equal(new Set(made.map(({ text }) => text)).size, 1);
    for (const { status, body: problem } of answers)
      if (status !== 201) assert.equal(problem['code'], 'IDEMPOTENCY_KEY_IN_FLIGHT');
    assert.equal(made.filter(({ headers }) => headers.get('idempotent-replayed') === null).length, 1);
    const replay = await api.call('POST', '/v1/packets', body, key);
    assert.equal(replay.headers.get('idempotent-replayed'), 'true');
    assert.equal(replay.text, made[0]?.text);
    for (const other of [
      { ...body, totalAmount: 101 },
      { ...body, shareCount: 1 },
    ]) {
      assert.equal((await api.call('POST', '/v1/packets', other, key)).status, 422);
    }
    assert.equal(
      (await api.call('POST', '/v1/accounts/sender/deposits', { amount: 1, reference: 'q' }, key)).status,
      422,
    );
    const poor = { senderId: 'poor', totalAmount: 100, shareCount: 2 };
    assert.equal((await api.call('POST', '/v1/packets', poor, { 'idempotency-key': 'k-2' })).status, 409);
    await books.fund('poor', 100);
    assert.equal((await api.call('POST', '/v1/packets', poor, { 'idempotency-key': 'k-2' })).status, 201);
  });

  it('keys: scopes are kept, a revoked key dies, nonsense is 401', async () => {
    const reader = await createKey(books.database, 'reader', ['packets:read']);
    const id = String((await packet()).body['id']);
    const as = (key: string) => ({ authorization: `Bearer ${key}` });
    assert.equal((await api.call('GET', `/v1/packets/${id}`, undefined, as(reader.key))).status, 200);
    const refused = await api.call('POST', `/v1/packets/${id}/grabs`, { userId: 'x' }, as(reader.key));
    assert.equal(refused.status, 403);
    assert.equal(refused.body['code'], 'FORBIDDEN');
    for (const key of [
      'nonsense',
      `${reader.key}x`,
      reader.key.slice(0, -1) + (reader.key.endsWith('A') ? 'B' : 'A'),
      'llk_0000000000000000_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA',
      'llt_x.y',
      'llt_e30.AAAA',
    ]) {
      const answer = await api.call('GET', `/v1/packets/${id}`, undefined, as(key));
      assert.equal(answer.status, 401, key);
      assert.equal(answer.headers.get('www-authenticate'), 'Bearer');
    }
    const revoked = await createKey(books.database, 'revoked', ['admin']);
    await revokeKey(books.database, revoked.id);
    assert.equal((await api.call('GET', `/v1/packets/${id}`, undefined, as(revoked.key))).status, 401);
    const stored = await books.query<{ secret_hash: string }>('SELECT secret_hash FROM api_keys');
    for (const { secret_hash: hash } of stored) assert.notInclude(reader.key, hash);
  });

  it('a participant token acts for its own user only', async () => {
    const token = async (userId: string) => ({
      authorization: `Bearer ${String((await api.call('POST', '/v1/participant-tokens', { userId, ttlSeconds: 60 })).body['token'])}`,
    });
    const [ann, bob, sender] = [await token('ann'), await token('bob'), await token('sender')];
    const id = String((await packet()).body['id']);
    const grab = async (userId: string, headers: Record<string, string>) =>
      (await api.call('POST', `/v1/packets/${id}/grabs`, { userId }, headers)).status;
    assert.equal(await grab('ann', ann), 201);
    assert.equal(await grab('ann', bob), 403);
    assert.equal((await api.call('GET', '/v1/accounts/ann', undefined, ann)).status, 200);
    assert.equal((await api.call('GET', '/v1/accounts/ann', undefined, bob)).status, 403);
    assert.equal((await api.call('GET', '/v1/users/ann/packets', undefined, bob)).status, 403);
    assert.equal(
      (await api.call('POST', '/v1/accounts/ann/deposits', { amount: 1, reference: 'x' }, ann)).status,
      403,
    );
    assert.equal((await api.call('POST', '/v1/participant-tokens', { userId: 'ann' }, ann)).status, 403);
    assert.equal((await api.call('POST', `/v1/packets/${id}/close`, undefined, ann)).status, 403);
    assert.equal((await api.call('POST', `/v1/packets/${id}/close`, undefined, sender)).status, 200);
  });

  it('what operators read: health, readiness, metrics, the API document and its page', async () => {
    assert.equal((await api.call('GET', '/healthz')).status, 200);
    assert.equal((await api.call('GET', '/readyz')).status, 200);
    const metrics = await api.call('GET', '/metrics');
    assert.match(metrics.text, /luckyledger_grabs_total\{outcome="granted"\} [1-9]/);
    const document = (await api.call('GET', '/openapi.json')).body as {
      openapi: string;
      paths: Record<string, Record<string, { responses: Record<string, unknown> }>>;
    };
    assert.equal(document.openapi, '3.1.0');
    for (const { path, method, success, refusals } of api.service.routes) {
      const { responses } = document.paths[path]?.[method.toLowerCase()] ?? assert.fail(path);
      for (const status of [
        ...Object.keys(success),
        ...refusals.map((code) => String(problems[code].status)),
      ])
        assert.property(responses, status);
    }
    const page = await api.call('GET', '/docs');
    for (const [, source = ''] of page.text.matchAll(/(?:src|href)="([^"]+)"/g))
      assert.equal((await api.call('GET', source)).status, 200, source);
    const wrongMethod = await api.call('DELETE', '/v1/packets');
    assert.equal(wrongMethod.status, 405);
    assert.equal(wrongMethod.headers.get('allow'), 'POST');
    assert.equal((await api.call('GET', '/v1/nothing')).body['code'], 'NOT_FOUND');
  });

  it('each request has an id and one log line without secrets or bodies', async () => {
    const answer = await api.call('GET', '/v1/accounts/alice', undefined, { 'x-request-id': 'my-id-1' });
    assert.equal(answer.headers.get('x-request-id'), 'my-id-1');
    const line = api.lines.find(({ requestId }) => requestId === 'my-id-1');
    assert.deepInclude(line, { route: 'getAccount', status: 200, path: '/v1/accounts/{owner}' });
    const all = JSON.stringify(api.lines);
    assert.notInclude(all, 'test-root-key');
    assert.notInclude(all, 'alice');
    assert.notEqual(
      (await api.call('GET', '/healthz', undefined, { 'x-request-id': 'not valid !' })).headers.get(
        'x-request-id',
      ),
      'not valid !',
    );
  });

  it('a split that fails its check writes nothing, logs an ERROR, and answers 500 SPLIT_REJECTED', async () => {
    const liar = await TestApi.start(books, {
      createHooks: { split: ({ shareCount }) => new Float64Array(shareCount).fill(1) },
    });
    const before = await books.balance('sender');
    const answer = await liar.call('POST', '/v1/packets', {
      senderId: 'sender',
      totalAmount: 1_000,
      shareCount: 5,
    });
    await liar.close();
    assert.equal(answer.status, 500);
    assert.equal(answer.body['code'], 'SPLIT_REJECTED');
    assert.equal(await books.balance('sender'), before);
    const errors = liar.lines.filter(({ level }) => level === 'error');
    assert.deepInclude(errors[0], {
      message: 'a split failed its independent check',
      totalAmount: 1_000,
      shareCount: 5,
    });
  });

  it('the package and the service agree on the version', async () => {
    const { version } = JSON.parse(
      await readFile(new URL('../../package.json', import.meta.url), 'utf8'),
    ) as { version: string };
    assert.equal(
      ((await api.call('GET', '/openapi.json')).body['info'] as { version: string }).version,
      version,
    );
  });
});
