import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { assert } from 'chai';
import { AnswerReader } from './answer-reader.ts';
import { Histogram } from './histogram.ts';
import { runLoad, type LoadPlan } from './load.ts';

/** Checks of the load generator against servers whose answers are known. node --import tsx test/bench/check-load.ts */

async function withServer(app: RequestListener, use: (port: number) => Promise<void>): Promise<void> {
  const server = createServer(app);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  try {
    await use((server.address() as AddressInfo).port);
  } finally {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
}

const plan = (port: number, more: Partial<LoadPlan> = {}): LoadPlan => ({
  port,
  connections: 16,
  warmupSeconds: 0.2,
  seconds: 1,
  mode: 'closed',
  paths: ['/v1/packets/a/grabs', '/v1/packets/b/grabs'],
  users: { prefix: 'u' },
  headers: { authorization: 'Bearer x' },
  ...more,
});

function checkHistogram(): void {
  const histogram = new Histogram();
  for (let us = 1; us <= 100_000; us += 1) histogram.record(us / 1000);
  for (const part of [0.001, 0.5, 0.9, 0.99, 0.999])
    assert.closeTo(histogram.quantile(part) / (part * 100), 1, 0.01, `the quantile ${part}`);
  assert.equal(histogram.max, 100);
  histogram.record(10_000_000);
  assert.isAtLeast(histogram.quantile(1), 2_000_000);
}

/** Each answer, cut at every place, is read once and whole. */
function checkReader(): void {
  const whole = 'HTTP/1.1 201 Created\r\nContent-Length: 5\r\nX: y\r\n\r\nhello';
  const chunked = 'HTTP/1.1 410 Gone\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n';
  for (const [text, status] of [
    [whole, 201],
    [chunked, 410],
  ] as const) {
    for (let cut = 1; cut <= text.length; cut += 1) {
      const reader = new AnswerReader(() => true);
      const first = reader.read(Buffer.from(text.slice(0, cut)));
      if (cut < text.length) assert.isNull(first);
      const answer = first ?? reader.read(Buffer.from(text.slice(cut)));
      assert.deepEqual(answer, { status, close: false, body: 'hello' });
    }
  }
  const reader = new AnswerReader(() => false);
  assert.throws(() => reader.read(Buffer.from(`${whole}HTTP/1.1`)), 'UNASKED_BYTES');
  assert.throws(
    () => new AnswerReader(() => false).read(Buffer.from('HTTP/1.1 200 OK\r\n\r\n')),
    'NO_LENGTH',
  );
}

/** Users are unique, paths take turns, statuses are counted, bodies and headers arrive. */
async function checkClosed(): Promise<void> {
  const users = new Map<string, string>();
  let wrong = 0;
  const app: RequestListener = (request, response) => {
    let text = '';
    request.on('data', (data: Buffer) => (text += data.toString()));
    request.on('end', () => {
      const { userId } = JSON.parse(text) as { userId: string };
      const even = Number(userId.slice(1)) % 2 === 0;
      if (users.has(userId) || request.headers.authorization !== 'Bearer x') wrong += 1;
      if (request.url !== `/v1/packets/${even ? 'a' : 'b'}/grabs`) wrong += 1;
      users.set(userId, userId);
      if (even) response.writeHead(201, { 'content-length': 2 });
      else response.writeHead(410);
      response.write('{');
      response.end('}');
    });
  };
  await withServer(app, async (port) => {
    const told: string[] = [];
    const result = await runLoad(plan(port, { samples: 3 }), {
      began: () => told.push('began'),
      ended: () => told.push('ended'),
    });
    console.log('closed loop:', JSON.stringify(result));
    assert.equal(wrong, 0);
    assert.deepEqual(told, ['began', 'ended']);
    assert.equal(users.size, result.usersUsed);
    assert.equal(result.errors, 0);
    assert.equal((result.byStatus['201'] ?? 0) + (result.byStatus['410'] ?? 0), result.requests);
    assert.closeTo(result.byStatus['201'] ?? 0, result.requests / 2, 16);
    assert.closeTo(result.perSecond, result.requests, 32);
    assert.deepEqual(
      result.samples.map(({ body }) => body),
      ['{}', '{}', '{}'],
    );
    const again = await runLoad(plan(port, { users: { prefix: 'v', count: 10 }, seconds: 0.2 }));
    assert.equal([...users.keys()].filter((user) => user.startsWith('v')).length, 10);
    assert.isAbove(again.requests, 10);
  });
}

/** A server that stops for a while: the requests that were due meanwhile count from when they were due. */
async function checkOpen(): Promise<void> {
  const pauseMs = 400;
  const rate = 500;
  let pausedUntil = 0;
  let seen = 0;
  const app: RequestListener = (request, response) => {
    request.resume();
    seen += 1;
    if (seen === 300) pausedUntil = performance.now() + pauseMs;
    const answer = (): void => void response.writeHead(200, { 'content-length': 0 }).end();
    const wait = pausedUntil - performance.now();
    if (wait > 0) setTimeout(answer, wait);
    else answer();
  };
  await withServer(app, async (port) => {
    const mode = { ratePerSecond: rate };
    const result = await runLoad(plan(port, { mode, connections: 4, seconds: 2 }));
    console.log('open loop, server stops for 400 ms:', JSON.stringify(result));
    assert.equal(result.requests, rate * 2);
    assert.equal(result.byStatus['200'], rate * 2);
    // Of 1,000 requests 200 were due in the pause; those due in its first half waited more than half of it.
    assert.isAbove(result.p90, pauseMs / 2 - 20);
    assert.isAbove(result.max, pauseMs - 20);
    assert.isBelow(result.p50, pauseMs / 4);
  });
}

/** Broken connections are errors, and are made again. */
async function checkErrors(): Promise<void> {
  let seen = 0;
  const app: RequestListener = (request, response) => {
    seen += 1;
    request.resume();
    if (seen % 100 === 0) request.socket.destroy();
    else if (seen % 10 === 0) response.writeHead(200, { 'content-length': 0, connection: 'close' }).end();
    else if (seen % 151 === 0) response.socket?.write('no answer\r\n\r\n');
    else response.writeHead(200, { 'content-length': 0 }).end();
  };
  await withServer(app, async (port) => {
    const result = await runLoad(plan(port));
    console.log('broken connections:', JSON.stringify(result));
    assert.hasAllKeys(result.errorCodes, ['CLOSED', 'UNREADABLE']);
    assert.equal((result.byStatus['200'] ?? 0) + result.errors, result.requests);
    assert.isAbove(result.requests, 1_000);
  });
  const silent: RequestListener = (request) => void request.resume();
  await withServer(silent, async (port) => {
    const result = await runLoad(
      plan(port, { mode: { ratePerSecond: 100 }, drainSeconds: 0.2, warmupSeconds: 0 }),
    );
    console.log('silent server:', JSON.stringify(result.errorCodes));
    assert.deepEqual(result.errorCodes, { NO_ANSWER: 16, NOT_SENT: 84 });
  });
  let refused = '';
  await runLoad(plan(1)).catch((error: unknown) => (refused = String(error)));
  assert.include(refused, 'ECONNREFUSED');
}

checkHistogram();
checkReader();
await checkClosed();
await checkOpen();
await checkErrors();
console.log('The load generator is as it should be.');
