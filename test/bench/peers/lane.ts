import { openSync, writeSync } from 'node:fs';
import { devNull } from 'node:os';
import { z } from 'zod';
import type { DatabaseEvents } from '../../../src/database/database.ts';
import { Authenticator } from '../../../src/http/auth.ts';
import { fastLane } from '../../../src/http/fast-lane.ts';
import { listen } from '../../../src/http/lifecycle.ts';
import { defineRoute, type Route, type RouteAnswer } from '../../../src/http/route.ts';
import { packetId, userId } from '../../../src/http/schemas.ts';
import { createApp, type ServerDeps } from '../../../src/http/server.ts';
import { Metrics } from '../../../src/observe/metrics.ts';
import { createLog, requestLines, scrubbed } from '../../../src/observe/log.ts';
import { grabAnswer, grabBody } from '../../../src/packet/answers.ts';
import type { Grab } from '../../../src/packet/packet.ts';

/**
 * Another store on this service's own fast lane: the same route, checks, schemas, headers, request lines and metrics as the
 * service's grab, so that what differs is only where the grab is decided.
 */
export type GrabHandler = (packetId: string, userId: string) => Promise<RouteAnswer>;

function grabRoute(grab: GrabHandler): Route {
  return defineRoute({
    name: 'grab',
    method: 'POST',
    path: '/v1/packets/{id}/grabs',
    summary: 'Grab a share for one user; a repeat tells the original grab',
    scopes: ['packets:grab'],
    hot: true,
    participant: (user, { body }) => body.userId === user,
    params: z.strictObject({ id: packetId }),
    body: z.strictObject({ userId }),
    success: { 201: grabAnswer, 200: grabAnswer },
    refusals: ['SOLD_OUT'],
    handler: async ({ params: { id }, body }) => await grab(id, body.userId),
  });
}

/** As the service answers a grab. */
export function grabbed(grab: Grab, outcome: 'granted' | 'already_granted'): RouteAnswer {
  return { status: outcome === 'granted' ? 201 : 200, body: { ...grabBody(grab), outcome } };
}

/** Request lines are written, in full, to where they are thrown away: what is measured is the service, not a disk. */
export function discardedLines(): ReturnType<typeof requestLines> {
  const file = openSync(devNull, 'w');
  return requestLines('info', {}, { write: (text) => writeSync(file, text) });
}

/** Tells the port as a JSON line, and ends on SIGTERM with `close`. */
export function announce(address: string, close: () => Promise<void>): void {
  process.stdout.write(`${JSON.stringify({ port: Number(new URL(address).port) })}\n`);
  process.once('SIGTERM', () => void close().then(() => process.exit(0)));
}

/** Serves grabs by `open`'s handler. PORT, API_KEY. */
export async function serveLane(
  open: (events: DatabaseEvents) => Promise<{ grab: GrabHandler; close: () => Promise<void> }>,
): Promise<void> {
  const metrics = new Metrics();
  const { grab, close } = await open(metrics.databaseEvents());
  const log = createLog('warn');
  const deps: ServerDeps = {
    authenticator: new Authenticator({
      findKey: async () => await Promise.resolve(null),
      apiKey: process.env['API_KEY'] ?? null,
      tokenSecret: 'of nobody',
    }),
    failed: (error, route, requestId) => {
      log.error('unexpected failure', { route: route.name, requestId, ...scrubbed(error) });
    },
    metrics,
    version: 'peer',
    ready: async () => await Promise.resolve({}),
    log: discardedLines(),
  };
  const routes = [grabRoute(grab)];
  const listener = fastLane(routes, createApp(routes, deps), deps);
  const listening = await listen(listener, '127.0.0.1', Number(process.env['PORT'] ?? 0));
  announce(listening.address, async () => {
    await listening.close(1_000);
    await close();
  });
}
