import { connect } from 'node:net';
import { assert } from 'chai';
import { parseStrictJson } from '../../src/http/json.ts';
import { TestApi, rootKey } from '../support/api.ts';
import { eachLane } from '../support/lanes.ts';
import { TestBooks } from '../support/service.ts';

eachLane('hostile input', (lane) => {
  let books: TestBooks;
  let api: TestApi;
  let id: string;
  before(async () => {
    books = await TestBooks.open();
    api = await TestApi.start(books, { fastLane: lane === 'fast lane' });
    await books.fund('sender', 1_000);
    id = await books.packet({ totalAmount: 100, shareCount: 10 });
  });
  afterEach(async () => await books.assertClean());
  after(async () => {
    await api.close();
    await books.close();
  });

  const counts = async (): Promise<unknown> =>
    await books.query(
      'SELECT (SELECT COUNT(*) FROM accounts) a, (SELECT COUNT(*) FROM transfers) t, (SELECT COUNT(*) FROM packets) p, (SELECT COUNT(*) FROM grabs) g, (SELECT COUNT(*) FROM idempotency_keys) k',
    );

  /** Refused with this status, naming the place; no row, no stack, no SQL. */
  const refusedAt = async (
    method: string,
    path: string,
    body: unknown,
    status: number,
    place: string | null,
    headers = {},
  ): Promise<void> => {
    const before = await counts();
    const answer = await api.call(method, path, body, headers);
    const label = `${path} ${String(body).slice(0, 80)} → ${answer.text.slice(0, 300)}`;
    assert.equal(answer.status, status, label);
    assert.include(answer.headers.get('content-type') ?? '', 'application/problem+json', label);
    assert.notMatch(answer.text, /SELECT|INSERT|\.ts:|node_modules|at [A-Z]\w+\./, label);
    if (place !== null) {
      const errors = (answer.body['errors'] ?? []) as { path: string }[];
      assert.include(
        errors.map((error) => error.path),
        place,
        label,
      );
    }
    assert.deepEqual(await counts(), before, label);
  };

  const good = '"senderId":"sender","shareCount":2';
  const amounts = [
    '0',
    '-1',
    '-0',
    '0.1',
    '1.5',
    '"100"',
    '"1e3"',
    '"１００"',
    'null',
    'true',
    '[]',
    '{}',
    '1e21',
    '1e400',
    '9007199254740992',
    '9007199254740993',
    '100.00000000000000001',
    '4503599627370497.4',
    '1e-400',
    '100000000000000000000000000000000000000',
    '9007199254740991.5',
  ];
  for (const amount of amounts) {
    it(`a total of ${amount} is refused by name`, async () => {
      await refusedAt('POST', '/v1/packets', `{${good},"totalAmount":${amount}}`, 400, 'body.totalAmount');
    });
  }

  it('1e2 and 100.0 are integers', async () => {
    for (const amount of ['1e2', '100.0', '1.0e2', '1000e-1']) {
      const answer = await api.call('POST', '/v1/packets', `{${good},"totalAmount":${amount}}`);
      assert.equal(answer.status, 201, amount);
      assert.equal(answer.body['totalAmount'], 100);
    }
  });

  it('unknown, duplicate and __proto__ fields are refused by name', async () => {
    await refusedAt('POST', '/v1/packets', `{${good},"totalAmount":10,"extra":1}`, 400, 'body.extra');
    await refusedAt(
      'POST',
      '/v1/packets',
      `{${good},"totalAmount":10,"totalAmount":10}`,
      400,
      'body.totalAmount',
    );
    await refusedAt(
      'POST',
      '/v1/packets',
      `{${good},"totalAmount":10,"__proto__":{"x":1}}`,
      400,
      'body.__proto__',
    );
    await refusedAt(
      'POST',
      '/v1/packets',
      `{${good},"totalAmount":10,"constructor":1}`,
      400,
      'body.constructor',
    );
    await refusedAt('GET', `/v1/packets/${id}?x=1`, undefined, 400, 'query.x');
    await refusedAt('GET', `/v1/packets/${id}/grabs?limit=1&limit=2`, undefined, 400, 'query.limit');
    await refusedAt('GET', `/v1/packets/${id}/grabs?__proto__=2`, undefined, 400, 'query.__proto__');
    await refusedAt('POST', `/v1/packets/${id}/close`, '{"x":1}', 400, 'body.x');
  });

  it('every fault is listed at once', async () => {
    const answer = await api.call(
      'POST',
      '/v1/packets',
      { senderId: ' x', totalAmount: 0, shareCount: 1_000_001, split: 'random', x: 1 },
      { 'idempotency-key': '' },
    );
    const paths = (answer.body['errors'] as { path: string }[]).map(({ path }) => path).sort();
    assert.deepEqual(paths, [
      'body.senderId',
      'body.shareCount',
      'body.split',
      'body.totalAmount',
      'body.x',
      'header.idempotency-key',
    ]);
  });

  it('infeasible splits are 400 before any debit', async () => {
    await refusedAt(
      'POST',
      '/v1/packets',
      { senderId: 'sender', totalAmount: 17, shareCount: 18 },
      400,
      'body.totalAmount',
    );
    await refusedAt(
      'POST',
      '/v1/packets',
      { senderId: 'sender', totalAmount: 100, shareCount: 3, maxShare: 33 },
      400,
      'body.maxShare',
    );
  });

  it('user ids: control characters, lone surrogates, white space at the ends, too long', async () => {
    const bad = [
      '',
      ' ',
      'a ',
      ' a',
      'a\n',
      'a\u0000b',
      '\u0085',
      'a\u007f',
      '\u00a0a',
      'a\u3000',
      'x'.repeat(65),
      '🧧'.repeat(65),
      '\ufeffa',
    ];
    for (const userId of bad)
      await refusedAt('POST', `/v1/packets/${id}/grabs`, { userId }, 400, 'body.userId');
    for (const escape of ['\\ud800', '\\udc00x', 'a\\ud83e'])
      await refusedAt('POST', `/v1/packets/${id}/grabs`, `{"userId":"${escape}"}`, 400, 'body.userId');
    for (const userId of [null, 1, ['a'], { a: 1 }, true])
      await refusedAt('POST', `/v1/packets/${id}/grabs`, { userId }, 400, 'body.userId');
    await refusedAt('GET', '/v1/accounts/%20x', undefined, 400, 'path.owner');
    await refusedAt('GET', '/v1/accounts/%00', undefined, 400, 'path.owner');
  });

  it('user ids with quotes, percent signs and emoji are legal', async () => {
    const packetId = await books.packet({ totalAmount: 100, shareCount: 10, method: 'equal' });
    const legal = [
      "o'brien",
      '"quoted"',
      '100%',
      '%_%',
      '🧧',
      '🧧'.repeat(64),
      'a b',
      '\\',
      "'; DROP TABLE grabs; --",
    ];
    for (const userId of legal) {
      assert.equal((await api.call('POST', `/v1/packets/${packetId}/grabs`, { userId })).status, 201, userId);
      assert.equal(
        (await api.call('GET', `/v1/accounts/${encodeURIComponent(userId)}`)).body['balance'],
        10,
        userId,
      );
    }
  });

  it('bodies: not JSON, not UTF-8, not an object, too deep, too large, of another type', async () => {
    const path = `/v1/packets/${id}/grabs`;
    for (const text of ['', '{', '{"userId":"a"', "{'userId':'a'}", '{"userId":"a"}x', 'undefined', 'NaN'])
      await refusedAt('POST', path, text, 400, 'body');
    for (const text of ['[]', '"a"', '1', 'null', '[{"userId":"a"}]'])
      await refusedAt('POST', path, text, 400, 'body');
    await refusedAt(
      'POST',
      path,
      new Uint8Array([0x7b, 0x22, 0xff, 0xfe, 0x22, 0x3a, 0x31, 0x7d]),
      400,
      'body',
    );
    await refusedAt('POST', path, '['.repeat(60_000), 400, 'body');
    await refusedAt('POST', path, `${'['.repeat(30_000)}${']'.repeat(30_000)}`, 400, null);
    await refusedAt('POST', path, `{"userId":${'{"a":'.repeat(40)}1${'}'.repeat(40)}}`, 400, null);
    await refusedAt('POST', path, JSON.stringify({ userId: 'x'.repeat(65 * 1024) }), 413, null);
    await refusedAt('POST', path, 'userId=a', 415, null, {
      'content-type': 'application/x-www-form-urlencoded',
    });
    await refusedAt('POST', path, '{"userId":"a"}', 415, null, { 'content-type': 'text/plain' });
    await refusedAt('POST', path, '{"userId":"a"}', 415, null, {
      'content-type': 'application/json; charset=latin1',
    });
    await refusedAt('POST', path, '{"userId":"a"}', 415, null, { 'content-encoding': 'gzip' });
  });

  it('packet ids of every shape are 404, a path that cannot be decoded 400', async () => {
    const shapes = [
      'x',
      '0',
      '-1',
      '01J00000000000000000000000',
      'null',
      "'",
      '%25',
      '%F0%9F%A7%A7',
      '..%2F..',
      id.toLowerCase(),
      `${id}x`,
      `${id}%20`,
      '%00',
      'a'.repeat(3_000),
    ];
    for (const shape of shapes) {
      await refusedAt('GET', `/v1/packets/${shape}`, undefined, 404, null);
      await refusedAt('GET', `/v1/packets/${shape}/proof`, undefined, 404, null);
      await refusedAt('POST', `/v1/packets/${shape}/grabs`, { userId: 'a' }, 404, null);
      await refusedAt('POST', `/v1/packets/${shape}/grabs/batch`, { userIds: ['a'] }, 404, null);
    }
    await refusedAt('GET', '/v1/packets/%ZZ', undefined, 400, 'path');
    await refusedAt('GET', '/v1/packets/%FF', undefined, 400, 'path');
  });

  it('cursors, limits and times that are none are refused by name', async () => {
    for (const limit of ['0', '201', '-1', '1.5', 'x', '', '1e1'])
      await refusedAt('GET', `/v1/packets/${id}/grabs?limit=${limit}`, undefined, 400, 'query.limit');
    for (const cursor of ['x', '-1', 'a b', '%00', '99999999999'])
      await refusedAt('GET', `/v1/packets/${id}/grabs?cursor=${cursor}`, undefined, 400, 'query.cursor');
    await refusedAt('GET', '/v1/accounts/a/transfers?cursor=zzz', undefined, 400, 'query.cursor');
    for (const time of [
      'yesterday',
      '2020-13-01T00:00:00Z',
      '2020-02-30T00:00:00Z',
      '0000-01-01T00:00:00Z',
      '2020-01-01',
    ])
      await refusedAt('GET', `/v1/accounts/a?at=${time}`, undefined, 400, 'query.at');
    await refusedAt(
      'POST',
      '/v1/packets',
      { senderId: 'sender', totalAmount: 10, shareCount: 1, opensAt: '9999-12-31T23:59:59Z' },
      400,
      'body.opensAt',
    );
    await refusedAt(
      'POST',
      '/v1/accounts/a/deposits',
      { amount: 1, reference: 'r', currency: 'cny' },
      400,
      'body.currency',
    );
  });

  it('without an idempotency key money does not move', async () => {
    await refusedAt(
      'POST',
      '/v1/accounts/a/deposits',
      { amount: 1, reference: 'r' },
      400,
      'header.idempotency-key',
      { 'idempotency-key': '' },
    );
    await refusedAt(
      'POST',
      '/v1/accounts/a/deposits',
      { amount: 1, reference: 'r' },
      400,
      'header.idempotency-key',
      { 'idempotency-key': 'x'.repeat(256) },
    );
  });

  it('a caller that hangs up in the middle of its body leaves nothing, and the service lives', async () => {
    const { port } = new URL(api.service.address);
    const before = await counts();
    await new Promise<void>((resolve) => {
      const socket = connect(Number(port), '127.0.0.1', () => {
        socket.write(
          `POST /v1/packets/${id}/grabs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${rootKey}\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"userId"`,
          () => socket.destroy(),
        );
      });
      socket.on('close', () => resolve());
    });
    assert.equal((await api.call('GET', '/healthz')).status, 200);
    assert.deepEqual(await counts(), before);
  });

  it('garbage behind a request on its connection does not take the place of its answer', async () => {
    const packetId = await books.packet({ totalAmount: 100, shareCount: 10, method: 'equal' });
    const { port } = new URL(api.service.address);
    const body = '{"userId":"piper"}';
    const request =
      `POST /v1/packets/${packetId}/grabs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${rootKey}\r\n` +
      `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
    const text = await new Promise<string>((resolve) => {
      let received = '';
      const socket = connect(Number(port), '127.0.0.1', () => socket.write(`${request}GARBAGE\r\n\r\n`));
      socket.on('data', (data) => {
        received += data.toString();
      });
      socket.on('close', () => resolve(received));
      socket.on('error', () => {});
    });
    assert.match(text, /^HTTP\/1\.1 201 /);
    assert.include(text, '"outcome":"granted"');
  });

  it('greetings and cursors of another kind are refused by name', async () => {
    for (const greeting of ['a\u0000b', 'x'.repeat(201), '\ud800']) {
      const body = { senderId: 'sender', totalAmount: 10, shareCount: 1, greeting };
      await refusedAt('POST', '/v1/packets', body, 400, 'body.greeting');
    }
    await refusedAt('GET', '/v1/users/a/packets?cursor=zz', undefined, 400, 'query.cursor');
  });

  it('the strict reader agrees with JSON.parse on what it takes, and names what it does not', () => {
    for (const text of [
      '{"a":[1,2,{"b":"\\u00e9\\ud83e\\udde7"}]}',
      '[]',
      '""',
      '{"a":-5,"b":1e2,"c":0.5,"d":"1.5e3,[{"}',
      ' {"x" : [ true , null ] } ',
    ]) {
      const { value, faults } = parseStrictJson(text);
      assert.deepEqual(value, JSON.parse(text));
      assert.isEmpty(faults, text);
    }
    assert.deepEqual(parseStrictJson('{"a":{"b":[0,1,{"c":1,"c":2}]}}').faults, [
      { path: 'body.a.b.2.c', message: 'appears more than once' },
    ]);
    assert.deepEqual(
      parseStrictJson('{"a":1,"\\u0061":2}').faults.map(({ path }) => path),
      ['body.a'],
    );
  });
});
