import { z } from 'zod';
import { Authenticator } from '../../../src/http/auth.ts';
import { fastLane } from '../../../src/http/fast-lane.ts';
import { listen } from '../../../src/http/lifecycle.ts';
import { defineRoute, type Route } from '../../../src/http/route.ts';
import { packetId, userId } from '../../../src/http/schemas.ts';
import { createApp, type ServerDeps } from '../../../src/http/server.ts';
import { Metrics } from '../../../src/observe/metrics.ts';
import { createLog, requestLines, scrubbed } from '../../../src/observe/log.ts';
import { grabAnswer, grabBody } from '../../../src/packet/answers.ts';
import { soldOut } from '../../../src/packet/packet.ts';
import { RedisFirst } from './redis-first.ts';

/**
 * The Redis-first peer's store on this service's own fast lane: the same route, checks, schemas, log and metrics
 * as the service's grab, so that what differs is only where the grab is decided. REDIS_URL, PORT, API_KEY, LOG_LEVEL
 * (as the service's; `error` writes no line for a request).
 */
function grabRoute(store: RedisFirst): Route {
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
    handler: async ({ params: { id }, body }) => {
      const result = await store.grab(id, body.userId);
      if (result.outcome === 'sold_out') throw soldOut();
      return {
        status: result.outcome === 'granted' ? 201 : 200,
        body: { ...grabBody(result), outcome: result.outcome },
      };
    },
  });
}

const store = await RedisFirst.open(process.env['REDIS_URL'] ?? '');
const level = process.env['LOG_LEVEL'] === 'error' ? 'error' : 'info';
const log = createLog(level);
const deps: ServerDeps = {
  authenticator: new Authenticator({
    findKey: async () => await Promise.resolve(null),
    apiKey: process.env['API_KEY'] ?? null,
    tokenSecret: process.env['TOKEN_SECRET'] ?? 'bench',
  }),
  failed: (error, route, requestId) => {
    log.error('unexpected failure', { route: route.name, requestId, ...scrubbed(error) });
  },
  metrics: new Metrics(),
  version: 'peer',
  ready: async () => ({ redis: await store.waiting().then(() => true) }),
  log: requestLines(level),
};
const routes = [grabRoute(store)];
const listening = await listen(
  fastLane(routes, createApp(routes, deps), deps),
  '127.0.0.1',
  Number(process.env['PORT'] ?? 0),
);
process.stdout.write(`${JSON.stringify({ port: Number(new URL(listening.address).port) })}\n`);
process.once('SIGTERM', () => {
  void listening
    .close(1_000)
    .then(async () => await store.close())
    .then(() => process.exit(0));
});
