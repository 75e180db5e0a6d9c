import { assert } from 'chai';
import type { ApiAnswer, TestApi } from '../support/api.ts';
import { people } from '../support/service.ts';
import { Setting } from './setting.ts';

describe('the gate over HTTP', () => {
  const setting = new Setting();

  it('a shed grab is 429 SHED with Retry-After, as a problem document, and writes nothing', async () => {
    const api = await setting.serve({ limit: 1 });
    const id = await setting.books.packet({ totalAmount: 1_000, shareCount: 10 });
    assert.equal((await api.call('POST', `/v1/packets/${id}/grabs`, { userId: 'first' })).status, 201);
    const shed = await api.call('POST', `/v1/packets/${id}/grabs`, { userId: 'second' });
    assert.equal(shed.status, 429);
    assert.match(shed.headers.get('content-type') ?? '', /^application\/problem\+json/);
    assert.include(shed.body, { status: 429, code: 'SHED' });
    const retryAfter = Number(shed.headers.get('retry-after'));
    assert.isTrue(retryAfter > 50 && retryAfter <= 60, String(retryAfter));
    assert.lengthOf(await setting.books.query("SELECT * FROM grabs WHERE user_id = 'second'"), 0);
    const metrics = await api.call('GET', '/metrics');
    assert.match(metrics.text, /^luckyledger_gate_shed_total 1$/m);
    assert.match(metrics.text, /^luckyledger_gate_open 0$/m);
  });

  it('a batch counts as its users and goes in whole or not at all', async () => {
    const api = await setting.serve({ limit: 10 });
    const id = await setting.books.packet({ totalAmount: 10_000, shareCount: 100 });
    const batch = async (size: number, prefix: string): Promise<ApiAnswer> =>
      await api.call('POST', `/v1/packets/${id}/grabs/batch`, { userIds: people(size, prefix) });
    assert.equal((await batch(6, 'a')).status, 200);
    assert.equal((await batch(6, 'b')).status, 429);
    assert.equal((await batch(4, 'c')).status, 200);
    assert.equal((await api.call('POST', `/v1/packets/${id}/grabs`, { userId: 'd' })).status, 429);
    const [row] = await setting.books.query<{ n: number }>(
      'SELECT COUNT(*) AS n FROM grabs WHERE packet_id = ?',
      [id],
    );
    assert.equal(row?.n, 10);
    await setting.redis.client.flushall();
    assert.equal((await batch(50, 'large')).status, 200, 'larger than the limit, with room');
    assert.equal((await batch(1, 'e')).status, 429);
  });

  it('only whole requests of a known caller for what may be a packet are counted', async () => {
    const api = await setting.serve({ limit: 10 });
    const id = await setting.books.packet({ totalAmount: 1_000, shareCount: 10 });
    const path = `/v1/packets/${id}/grabs`;
    assert.equal((await api.call('POST', path, { userId: '' })).status, 400);
    assert.equal((await api.call('POST', path, { userId: 'a' }, { authorization: 'Bearer no' })).status, 401);
    assert.equal((await api.call('POST', `${path}/batch`, { userIds: [] })).status, 400);
    assert.equal((await api.call('POST', '/v1/packets/nothing/grabs', { userId: 'a' })).status, 404);
    assert.isEmpty(await setting.redis.client.keys('*'));
  });

  it('answers the same with a gate and without', async () => {
    /** Everything that can come of a grab, from a packet whose split is fixed. */
    const play = async (api: TestApi, run: string): Promise<unknown[]> => {
      const seed = { seed: () => Buffer.alloc(32, 7) };
      const packet = { totalAmount: 5_000, shareCount: 5, method: 'equal' } as const;
      const id = await setting.books.packet(packet, seed);
      const invited = await setting.books.packet({ ...packet, audience: [`${run}-x`] }, seed);
      const closed = await setting.books.packet(packet, seed);
      await setting.books.closePacket(closed);
      const later = await setting.books.packet(
        { ...packet, opensAt: new Date(Date.now() + 3_600_000) },
        seed,
      );
      const answers: ApiAnswer[] = [];
      const call = async (path: string, body: unknown): Promise<void> =>
        void answers.push(await api.call('POST', `/v1/packets/${path}`, body));
      for (const user of ['a', 'b', 'a', '']) await call(`${id}/grabs`, { userId: user && `${run}-${user}` });
      await call(`${id}/grabs/batch`, { userIds: ['b', 'c', 'd', 'e', 'f'].map((user) => `${run}-${user}`) });
      for (const user of ['g', 'a', 'e']) await call(`${id}/grabs`, { userId: `${run}-${user}` });
      for (const other of [invited, closed, later, '01M8QNQXPHXEAR1V9RG1F10WV1', 'none'])
        await call(`${other}/grabs`, { userId: `${run}-y` });
      await call('none/grabs/batch', { userIds: [`${run}-y`] });
      return answers.map(
        ({ status, body: { requestId: _, packetId: __, grabbedAt: ___, opensAt: ____, ...body } }) => [
          status,
          JSON.stringify(body).replaceAll(`${run}-`, ''),
        ],
      );
    };
    const without = await play(await setting.serve({ limit: null }), 'without');
    const withGate = await play(await setting.serve({ limit: 10_000 }), 'withgate');
    assert.deepEqual(withGate, without);
    assert.includeMembers(
      without.map((answer) => (answer as [number])[0]),
      [200, 201, 400, 403, 404, 409, 410],
    );
  });

  it('without REDIS_URL there is no gate and no metric of one', async () => {
    const api = await setting.serve({ limit: null });
    assert.notInclude((await api.call('GET', '/metrics')).text, 'luckyledger_gate');
  });

  it('the OpenAPI document tells of it', async () => {
    const api = await setting.serve({ limit: null });
    const { body } = await api.call('GET', '/openapi.json');
    const paths = body['paths'] as Record<
      string,
      { post?: { responses: Record<string, { description: string }> } }
    >;
    for (const path of ['/v1/packets/{id}/grabs', '/v1/packets/{id}/grabs/batch'])
      assert.include(paths[path]?.post?.responses['429']?.description ?? '', '`SHED`');
  });
});
