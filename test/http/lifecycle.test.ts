import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { assert } from 'chai';
import { z } from 'zod';
import { defineRoute, type Route } from '../../src/http/route.ts';
import { eachLane } from '../support/lanes.ts';
import { Door, rootKey } from './support.ts';

/** A route whose handler says when it has begun, and ends when it is told to. */
function slowRoute(): { route: Route; begun: Promise<void>; end: () => void } {
  let begin = (): void => {};
  let end = (): void => {};
  const begun = new Promise<void>((resolve) => (begin = resolve));
  const ended = new Promise<void>((resolve) => (end = resolve));
  const route = defineRoute({
    name: 'slow',
    method: 'GET',
    path: '/v1/slow',
    summary: 'Takes its time',
    scopes: ['admin'],
    success: { 200: z.strictObject({ done: z.boolean() }) },
    refusals: [],
    handler: async () => {
      begin();
      await ended;
      return { status: 200, body: { done: true } };
    },
  });
  return { route, begun, end };
}

async function rejection(promise: Promise<unknown>): Promise<unknown> {
  try {
    await promise;
    return null;
  } catch (error) {
    return error;
  }
}

function connectTo(door: Door): Socket {
  return connect(Number(new URL(door.address).port), '127.0.0.1');
}

eachLane('closing the server', (lane) => {
  it('finishes a running request, tells its connection to close, and takes no new ones', async () => {
    const { route, begun, end } = slowRoute();
    const door = await Door.open([route], undefined, lane);
    const running = door.call('GET', '/v1/slow');
    await begun;
    const closed = door.close(60_000);
    assert.instanceOf(await rejection(door.call('GET', '/healthz')), TypeError);
    end();
    const answer = await running;
    assert.deepEqual([answer.status, answer.text], [200, '{"done":true}']);
    assert.equal(answer.headers.get('connection'), 'close');
    await closed;
  });

  it('closes idle connections at once', async () => {
    const door = await Door.open([], undefined, lane);
    const socket = connectTo(door);
    socket.write('GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n');
    await once(socket, 'data');
    const ended = once(socket, 'end');
    await door.close(60_000);
    await ended;
    assert.isTrue(socket.readableEnded);
  });

  it('closes connections that have said nothing yet at once', async () => {
    const door = await Door.open([], undefined, lane);
    const socket = connectTo(door);
    await once(socket, 'connect');
    // Accepted, for the server has answered another one since.
    await door.call('GET', '/healthz');
    const closed = once(socket, 'close');
    socket.on('error', () => {}).resume();
    await door.close(60_000);
    await closed;
  });

  it('cuts what still runs at the deadline', async () => {
    const { route, begun, end } = slowRoute();
    const door = await Door.open([route], undefined, lane);
    const running = rejection(door.call('GET', '/v1/slow'));
    await begun;
    await door.close(50);
    assert.instanceOf(await running, TypeError);
    end();
  });

  it('is quiet about a caller who goes away in the middle of a body', async () => {
    const door = await Door.open([], undefined, lane);
    const socket = connectTo(door);
    socket.write(
      `POST /v1/packets/p/grabs HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${rootKey}\r\nExpect: 100-continue\r\n` +
        'Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"userId":',
    );
    // The server has read the head and waits for the rest of the body.
    const [data] = (await once(socket, 'data')) as [Buffer];
    assert.include(data.toString(), '100 Continue');
    const logged = door.nextLine();
    socket.destroy();
    await logged;
    await door.close(5_000);
    assert.isEmpty(door.failures);
    assert.isEmpty(door.reached);
    assert.lengthOf(door.lines, 1);
    assert.include(door.lines[0], { status: 499, code: 'ABORTED', clientId: 'environment' });
  });

  it('rejects an address that is taken', async () => {
    const door = await Door.open([], undefined, lane);
    const { listen } = await import('../../src/http/lifecycle.ts');
    const error = await rejection(listen(() => {}, '127.0.0.1', Number(new URL(door.address).port)));
    assert.propertyVal(error, 'code', 'EADDRINUSE');
    await door.close();
  });
});
