import { assert } from 'chai';
import { z } from 'zod';
import { defineRoute } from '../../src/http/route.ts';
import { Refusal, refusalCodes } from '../../src/refusal.ts';
import { problems } from '../../src/http/problem.ts';
import { eachLane } from '../support/lanes.ts';
import { Door, faultPaths, problemIn, type Answered } from './support.ts';

const databaseError = Object.assign(new Error('Duplicate entry secret-value for key'), {
  errno: 1062,
  code: 'ER_DUP_ENTRY',
  sql: 'INSERT INTO t VALUES (secret-value)',
  sqlMessage: 'secret-value',
});

const failing = defineRoute({
  name: 'fail',
  method: 'POST',
  path: '/v1/fail/{how}',
  summary: 'Fails as told',
  scopes: ['admin'],
  params: z.strictObject({ how: z.string() }),
  success: { 200: z.strictObject({}) },
  refusals: [],
  handler: async ({ params: { how } }) => {
    if (how === 'database') throw databaseError;
    if (how === 'undeclared') return await Promise.resolve({ status: 200, body: { secret: 'secret-value' } });
    const code = refusalCodes.find((known) => known === how);
    throw code === undefined
      ? new TypeError('secret-value')
      : new Refusal(code, { extra: { opensAt: 'then' } });
  },
});

eachLane('hostile requests', (lane) => {
  let door: Door;
  before(async () => void (door = await Door.open([failing], undefined, lane)));
  after(async () => await door.close());
  beforeEach(() => void door.reached.splice(0));

  const grab = async (body: string | Uint8Array<ArrayBuffer>): Promise<Answered> =>
    await door.call('POST', '/v1/packets/p/grabs', { body });
  const create = async (totalAmount: string, rest = ''): Promise<Answered> =>
    await door.call('POST', '/v1/packets', { body: `{"senderId":"a","totalAmount":${totalAmount}${rest}}` });

  it('serves a right one', async () => {
    const answer = await create('1e3', ',"opensAt":"2030-01-31T12:00:00+08:00"');
    assert.equal(answer.status, 201, answer.text);
    assert.equal(answer.headers.get('location'), '/v1/packets/1');
    assert.equal(answer.headers.get('cache-control'), 'no-store');
    assert.isNull(answer.headers.get('x-powered-by'));
    assert.isNull(answer.headers.get('etag'));
    assert.isNull(answer.headers.get('idempotent-replayed'));
    const [input] = door.reached as [{ body: Record<string, unknown> }];
    assert.deepInclude(input.body, { totalAmount: 1000, currency: 'CNY' });
    assert.deepEqual(input.body['opensAt'], new Date('2030-01-31T04:00:00Z'));
  });

  it('refuses every amount that is not an exact integer in range, and names it', async () => {
    for (const text of [
      '0',
      '-0',
      '-1',
      '0.1',
      '1.5',
      '"1"',
      '"1e3"',
      '"１００"',
      'null',
      'true',
      '[]',
      '{}',
      '1e21',
      '100.00000000000000001',
      '4503599627370497.4',
      '1e-400',
      '1e400',
      '9007199254740992',
      '9007199254740993',
    ])
      assert.deepEqual([...new Set(faultPaths(await create(text)))], ['body.totalAmount'], text);
    assert.isEmpty(door.reached);
    for (const text of ['1', '5.0', '1e3', '9007199254740991'])
      assert.equal((await create(text)).status, 201, text);
  });

  it('lists every fault at once with its path', async () => {
    const body =
      '{"totalAmount":"x","currency":"cny","rounds":[{"totalAmount":0.5,"extra":1}],"b":1,"__proto__":{}}';
    const answer = await door.call('POST', '/v1/packets?verbose=1', {
      body,
      headers: { 'idempotency-key': null, 'x-channel': 'far too long' },
    });
    assert.sameMembers(faultPaths(answer), [
      'query.verbose',
      'header.x-channel',
      'header.idempotency-key',
      'body.senderId',
      'body.totalAmount',
      'body.currency',
      'body.rounds.0.totalAmount',
      'body.rounds.0.extra',
      'body.b',
      'body.__proto__',
    ]);
  });

  it('refuses unknown, inherited, duplicate and __proto__ fields', async () => {
    for (const [body, path] of [
      ['{"userId":"a","x":1}', 'body.x'],
      ['{"userId":"a","constructor":1}', 'body.constructor'],
      ['{"userId":"a","toString":1}', 'body.toString'],
      ['{"userId":"a","userId":"b"}', 'body.userId'],
      ['{"userId":"a","__proto__":{"userId":"b"}}', 'body.__proto__'],
      ['{"__proto__":{"userId":"b"}}', 'body.__proto__'],
    ] as const)
      assert.include(faultPaths(await grab(body)), path, body);
    assert.isEmpty(door.reached);
  });

  it('refuses bodies that are no JSON object, too deep, or not UTF-8', async () => {
    const bodies = [
      '',
      '{',
      '{"userId":"a"}x',
      "{'userId':'a'}",
      'null',
      '[]',
      '1',
      '"a"',
      'NaN',
      '\u0000',
      '['.repeat(60_000),
      '['.repeat(30_000) + ']'.repeat(30_000),
      '{"a":'.repeat(9_000) + '1' + '}'.repeat(9_000),
    ];
    for (const body of bodies) assert.match(faultPaths(await grab(body)).join(), /^body/, body.slice(0, 20));
    const invalid = [[0xff], [0xc0, 0xaf], [0xed, 0xa0, 0x80], [0xf5, 0x80, 0x80, 0x80], [0xe2, 0x82]];
    for (const bytes of invalid) {
      const body = new Uint8Array([...Buffer.from('{"userId":"'), ...bytes, ...Buffer.from('"}')]);
      assert.deepEqual(faultPaths(await grab(body)), ['body']);
    }
    assert.isEmpty(door.reached);
  });

  it('takes user ids with quotes, percent signs and emoji as they are, and refuses the unprintable', async () => {
    const good = ["o'hara", '100%', '%27', '😀'.repeat(64), 'a b', 'é', 'e\u0301', '\\', '"', '`;--', '测试'];
    for (const userId of good) {
      assert.equal((await grab(JSON.stringify({ userId }))).status, 201, userId);
      assert.deepNestedInclude(door.reached.at(-1), { 'body.userId': userId });
      const path = `/v1/accounts/${encodeURIComponent(userId)}/transfers`;
      assert.deepEqual(JSON.parse((await door.call('GET', path)).text), {
        items: [userId],
        nextCursor: null,
      });
    }
    const bad = [
      '""',
      '" a"',
      '"a "',
      '"a\\u00a0"',
      '"\\u3000a"',
      '"\\ufeffa"',
      '"a\\u2028"',
      '"a\\u0000"',
      '"a\\nb"',
      '"a\\u007f"',
      '"a\\u0085b"',
      '"\\ud83d"',
      '"\\ude00x"',
      JSON.stringify('😀'.repeat(65)),
      '1',
      'null',
      '["a"]',
    ];
    for (const text of bad)
      assert.deepEqual([...new Set(faultPaths(await grab(`{"userId":${text}}`)))], ['body.userId'], text);
    for (const text of ['%00', '%20a', 'a%0A', 'a'.repeat(65)])
      assert.deepEqual(
        [...new Set(faultPaths(await door.call('GET', `/v1/accounts/${text}/transfers`)))],
        ['path.owner'],
        text,
      );
  });

  it('refuses malformed percent-encoding in path and query', async () => {
    for (const id of ['%', '%zz', '%ff', '%c0%af', '%ed%a0%80'])
      assert.deepEqual(faultPaths(await door.call('GET', `/v1/accounts/${id}/transfers`)), ['path'], id);
    for (const query of ['limit=%', 'limit=%zz', 'cursor=%ff'])
      assert.include(faultPaths(await door.call('GET', `/v1/accounts/a/transfers?${query}`)), 'query', query);
    const head = 'GET /v1/accounts/\xc3\xa9/transfers HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n';
    assert.match(await door.raw(Buffer.from(head, 'latin1')), /^HTTP\/1.1 400 /);
  });

  it('refuses wrong, repeated and unknown query parameters', async () => {
    for (const [query, path] of [
      ['limit=0', 'query.limit'],
      ['limit=201', 'query.limit'],
      ['limit=-1', 'query.limit'],
      ['limit=1.0', 'query.limit'],
      ['limit=1e1', 'query.limit'],
      ['limit=', 'query.limit'],
      ['limit=%D9%A1', 'query.limit'],
      ['limit=1&limit=2', 'query.limit'],
      ['limit[]=1', 'query.limit[]'],
      ['x=1', 'query.x'],
      ['__proto__=1', 'query.__proto__'],
      ['cursor=%27', 'query.cursor'],
      ['at=yesterday', 'query.at'],
      ['at=2030-02-30T00:00:00Z', 'query.at'],
      ['at=2030-01-01T00:00:00', 'query.at'],
      ['at=9999-01-01T00:00:00Z', 'query.at'],
    ] as const)
      assert.include(faultPaths(await door.call('GET', `/v1/accounts/a/transfers?${query}`)), path, query);
    assert.isEmpty(door.reached);
    assert.equal((await door.call('GET', '/v1/accounts/a/transfers?limit=200&cursor=aB_-')).status, 200);
    assert.deepNestedInclude(door.reached[0], { 'query.limit': 200 });
  });

  it('refuses other content types, charsets and encodings with 415', async () => {
    const body = '{"userId":"a"}';
    const refused: Record<string, string | null>[] = [
      { 'content-type': 'text/plain' },
      { 'content-type': 'application/x-www-form-urlencoded' },
      { 'content-type': 'application/jsonx' },
      { 'content-type': 'application/problem+json' },
      { 'content-type': 'application/json; charset=latin1' },
      { 'content-type': '' },
      { 'content-encoding': 'gzip' },
      { 'content-encoding': 'br' },
    ];
    for (const headers of refused) {
      const answer = await door.call('POST', '/v1/packets/p/grabs', { body, headers });
      assert.equal(problemIn(answer).code, 'UNSUPPORTED_MEDIA_TYPE', JSON.stringify(headers));
      assert.equal(answer.status, 415);
    }
    for (const type of [
      'application/json',
      'Application/JSON; charset="UTF-8"',
      'application/json;charset=utf-8;v=1',
    ])
      assert.equal(
        (await door.call('POST', '/v1/packets/p/grabs', { body, headers: { 'content-type': type } })).status,
        201,
        type,
      );
  });

  it('refuses a body over 64 KiB with 413, told beforehand or not, and serves on', async () => {
    const of = (bytes: number): string => `{"userId":"a"${' '.repeat(bytes - 14)}}`;
    assert.equal((await grab(of(65_536))).status, 201);
    for (const bytes of [65_537, 66_560, 3_000_000]) {
      const answer = await grab(of(bytes));
      assert.equal(problemIn(answer).code, 'PAYLOAD_TOO_LARGE');
      assert.equal(answer.status, 413);
    }
    const chunk = `4000\r\n${'x'.repeat(0x4000)}\r\n`;
    const chunked = await door.raw(
      'POST /v1/packets/p/grabs HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Type: application/json\r\n' +
        `Authorization: Bearer the key of the environment\r\nTransfer-Encoding: chunked\r\n\r\n${chunk.repeat(5)}0\r\n\r\n`,
    );
    assert.match(chunked, /^HTTP\/1.1 413 [^]*PAYLOAD_TOO_LARGE/);
    assert.equal((await grab('{"userId":"a"}')).status, 201);
  });

  it('takes a POST without fields with no body or an empty object, and nothing else', async () => {
    const path = '/v1/packets/p/close';
    assert.equal((await door.call('POST', path)).status, 200);
    assert.equal((await door.call('POST', path, { body: '{}' })).status, 200);
    assert.deepEqual(faultPaths(await door.call('POST', path, { body: '{"force":true}' })), ['body.force']);
    assert.deepEqual(faultPaths(await door.call('POST', path, { body: '[]' })), ['body']);
  });

  it('demands an idempotency key where it is required, and a right one where it is optional', async () => {
    for (const key of ['', 'a b', 'é', 'x'.repeat(256)]) {
      const headers = { 'idempotency-key': key };
      const body = '{"senderId":"a","totalAmount":1}';
      assert.deepEqual(
        faultPaths(await door.call('POST', '/v1/packets', { body, headers })),
        ['header.idempotency-key'],
        key,
      );
      assert.deepEqual(
        faultPaths(await door.call('POST', '/v1/packets/p/close', { headers })),
        ['header.idempotency-key'],
        key,
      );
    }
    assert.equal(
      (await door.call('POST', '/v1/packets/p/close', { headers: { 'idempotency-key': null } })).status,
      200,
    );
    assert.deepInclude(door.reached[0], { idempotency: null });
  });

  it('fingerprints what is asked, not how it is spelled', async () => {
    const send = async (path: string, body?: string): Promise<string> => {
      const answer = await door.call('POST', path, body === undefined ? {} : { body });
      assert.isBelow(answer.status, 300, answer.text);
      const { idempotency } = door.reached.at(-1) as { idempotency: Record<string, string> };
      assert.include(idempotency, { client: 'environment', key: 'key-1' });
      assert.match(idempotency['fingerprint'] ?? '', /^[0-9a-f]{64}$/);
      return idempotency['fingerprint'] ?? '';
    };
    const first = await send('/v1/packets', '{"senderId":"a","totalAmount":1000}');
    assert.equal(
      await send('/v1/packets/', ' {"totalAmount":1e3, "currency":"CNY","senderId":"\\u0061"}'),
      first,
    );
    assert.notEqual(await send('/v1/packets', '{"senderId":"a","totalAmount":1001}'), first);
    assert.equal(await send('/v1/packets/a/close'), await send('/v1/packets/%61/close', '{}'));
    assert.notEqual(await send('/v1/packets/a/close'), await send('/v1/packets/b/close'));
    const replayed = await door.call('POST', '/v1/packets', {
      body: '{"senderId":"a","totalAmount":1}',
      headers: { 'idempotency-key': 'replay' },
    });
    assert.equal(replayed.headers.get('idempotent-replayed'), 'true');
  });

  it('answers unknown paths with 404 and unknown methods with 405 and Allow', async () => {
    for (const path of [
      '/',
      '/v1',
      '/v1/packet',
      '/v2/packets',
      '/v1/packets/a/b/c',
      '/docs/package.json',
      '/docs/../package.json',
    ])
      assert.equal(problemIn(await door.call('GET', path)).code, 'NOT_FOUND', path);
    for (const [method, path, allow] of [
      ['GET', '/v1/packets', 'POST'],
      ['DELETE', '/v1/packets/p/grabs', 'POST'],
      ['PUT', '/v1/accounts/a/transfers', 'GET, HEAD'],
      ['POST', '/healthz', 'GET, HEAD'],
    ] as const) {
      const answer = await door.call(method, path);
      assert.equal(problemIn(answer).code, 'METHOD_NOT_ALLOWED', path);
      assert.equal(answer.status, 405);
      assert.equal(answer.headers.get('allow'), allow);
    }
    const head = await door.call('HEAD', '/v1/accounts/a/transfers');
    assert.deepEqual([head.status, head.text], [200, '']);
  });

  it('turns every refusal into its status, and tells when to come back', async () => {
    for (const code of refusalCodes) {
      const answer = await door.call('POST', `/v1/fail/${code}`);
      const problem = problemIn(answer);
      assert.include(problem, { code, status: problems[code].status, opensAt: 'then' });
      assert.equal(
        answer.headers.has('retry-after'),
        ['BUSY', 'RATE_LIMITED', 'SHED', 'IDEMPOTENCY_KEY_IN_FLIGHT'].includes(code),
      );
    }
  });

  it('tells nothing of an unexpected error, to the caller', async () => {
    for (const how of ['database', 'bug', 'undeclared']) {
      door.failures.splice(0);
      const answer = await door.call('POST', `/v1/fail/${how}`);
      assert.include(problemIn(answer), { code: 'INTERNAL', status: 500 });
      assert.notInclude(answer.text, 'secret-value');
      assert.lengthOf(door.failures, 1);
    }
  });

  it('answers in the same form what is no HTTP at all', async () => {
    for (const [bytes, status] of [
      ['nonsense\r\n\r\n', 400],
      [`GET / HTTP/1.1\r\nHost: a\r\nX: ${'x'.repeat(20_000)}\r\n\r\n`, 431],
      ['POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n', 400],
    ] as const) {
      const answer = await door.raw(bytes);
      assert.match(
        answer,
        new RegExp(`^HTTP/1.1 ${status} [^]*application/problem\\+json[^]*INVALID_REQUEST`),
      );
    }
  });

  it('echoes a sane request id, makes one otherwise, and logs one line without personal data', async () => {
    door.lines.splice(0);
    const headers = { 'x-request-id': 'trace-1.a_B' };
    const answer = await door.call('GET', '/v1/accounts/someone/transfers', { headers });
    assert.equal(answer.headers.get('x-request-id'), 'trace-1.a_B');
    for (const id of ['a b', 'x'.repeat(129), '<script>']) {
      const other = await door.call('GET', '/v1/accounts/a/transfers', { headers: { 'x-request-id': id } });
      assert.match(other.headers.get('x-request-id') ?? '', /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/);
    }
    assert.lengthOf(door.lines, 4);
    assert.include(door.lines[0], {
      route: 'listTransfers',
      method: 'GET',
      path: '/v1/accounts/{owner}/transfers',
      status: 200,
      requestId: 'trace-1.a_B',
      clientId: 'environment',
    });
    assert.isNumber(door.lines[0]?.['ms']);
    assert.notInclude(JSON.stringify(door.lines), 'someone');
  });
});
