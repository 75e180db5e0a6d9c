import { request } from 'node:http';
import { assert } from 'chai';
import { requestLines, createLog } from '../../src/observe/log.ts';
import { lanes } from '../support/lanes.ts';
import { Door, rootKey } from './support.ts';

interface Whole {
  status: number | undefined;
  headers: string[];
  text: string;
}

/** The answer with its headers as they came over the wire, sorted; what differs from call to call is masked. */
async function whole(
  door: Door,
  method: string,
  path: string,
  body: string,
  headers: object,
): Promise<Whole> {
  return await new Promise((resolve, reject) => {
    const { port } = new URL(door.address);
    const sent = request({ host: '127.0.0.1', port, method, path, headers: { ...headers } }, (answer) => {
      let text = '';
      answer.setEncoding('utf8').on('data', (chunk: string) => (text += chunk));
      answer.on('end', () => {
        const pairs = answer.rawHeaders.flatMap((name, index, all) =>
          index % 2 === 0 ? [`${name.toLowerCase()}: ${mask(all[index + 1] ?? '')}`] : [],
        );
        resolve({ status: answer.statusCode, headers: pairs.sort(), text: mask(text) });
      });
    });
    sent.on('error', reject).end(body);
  });
}

function mask(text: string): string {
  return text
    .replaceAll(/[0-9a-f]{8}-[0-9a-f-]{27}/g, 'ID')
    .replaceAll(/\w{3}, \d\d \w{3} \d{4} [\d:]{8} GMT/g, 'DATE');
}

describe('the fast lane', () => {
  const doors = new Map<string, Door>();
  before(async () => {
    for (const lane of lanes) doors.set(lane, await Door.open([], undefined, lane));
  });
  after(async () => {
    for (const door of doors.values()) await door.close();
  });

  const key = { authorization: `Bearer ${rootKey}`, 'content-type': 'application/json' };
  const calls: [what: string, method: string, path: string, body: string, headers: object][] = [
    ['a success', 'POST', '/v1/packets/p/grabs', '{"userId":"a"}', key],
    [
      'a success with a name of its own',
      'POST',
      '/v1/packets/p/grabs',
      '{"userId":"红包"}',
      { ...key, 'x-request-id': 'mine' },
    ],
    [
      'a creation',
      'POST',
      '/v1/packets',
      '{"senderId":"a","totalAmount":5}',
      { ...key, 'idempotency-key': 'k' },
    ],
    [
      'a replay',
      'POST',
      '/v1/packets',
      '{"senderId":"a","totalAmount":5}',
      { ...key, 'idempotency-key': 'replay' },
    ],
    ['a list', 'GET', '/v1/accounts/a/transfers', '', key],
    ['a list with a query', 'GET', '/v1/accounts/a/transfers?limit=2', '', key],
    ['an encoded path', 'GET', '/v1/accounts/%61/transfers', '', key],
    ['a path in capitals, with a slash', 'GET', '/V1/accounts/a/transfers/', '', key],
    ['HEAD', 'HEAD', '/v1/accounts/a/transfers', '', key],
    ['another method', 'PUT', '/v1/packets/p/grabs', '{}', key],
    ['faults', 'POST', '/v1/packets/p/grabs', '{"userId":"","x":1}', key],
    ['a query where none belongs', 'POST', '/v1/packets/p/grabs?x=1', '{"userId":"a"}', key],
    ['no key', 'POST', '/v1/packets/p/grabs', '{"userId":"a"}', {}],
    ['another type', 'POST', '/v1/packets/p/grabs', 'a', { ...key, 'content-type': 'text/plain' }],
    ['a large body', 'POST', '/v1/packets/p/grabs', 'a'.repeat(70_000), key],
    ['no such path', 'POST', '/v1/packets/p/grab', '{}', key],
    ['a broken path', 'GET', '/v1/accounts/%zz/transfers', '', key],
  ];
  for (const [what, method, path, body, headers] of calls) {
    it(`answers, counts and logs ${what} as express does, to the header`, async () => {
      const seen = [];
      for (const door of doors.values()) {
        const logged = door.nextLine();
        const answer = await whole(door, method, path, body, headers);
        await logged;
        const { ms, requestId, ...line } = door.lines.at(-1) ?? {};
        assert.isNumber(ms);
        seen.push({ answer, line, named: typeof requestId });
      }
      assert.isAbove(seen[0]?.answer.headers.length ?? 0, 10);
      assert.deepEqual(seen[1], seen[0]);
    });
  }

  it('writes its request lines as the log writes its own', async () => {
    const line = { message: 'request', route: 'grab', ms: 1.5, code: 'SOLD_OUT' };
    let fast = '';
    await new Promise<void>((resolve) => {
      requestLines(
        'info',
        { pid: 7 },
        {
          write: (text) => {
            fast += text;
            resolve();
          },
        },
      )(line);
    });
    const log = createLog('info', { pid: 7 });
    const slow = await new Promise<string>((resolve) => {
      log.on('data', (info: Record<symbol, string>) => resolve(info[Symbol.for('message')] ?? ''));
      for (const transport of log.transports) transport.silent = true;
      log.info(line);
    });
    const masked = (text: string): unknown => ({ ...(JSON.parse(text) as object), timestamp: 'T' });
    assert.deepEqual(masked(fast), masked(slow));
    assert.match((JSON.parse(fast) as { timestamp: string }).timestamp, /^\d{4}-\d\d-\d\dT[\d:.]+Z$/);
    assert.isTrue(fast.endsWith('\n'));
  });

  it('writes no request line where the log is for warnings only', () => {
    requestLines('warn', {}, { write: () => assert.fail('a line was written') })({ message: 'request' });
  });
});
