import express from 'express';
import { RedisFirst } from './redis-first.ts';
import { serve } from './serve.ts';

/**
 * The Redis-first peer as the field builds it: express, its JSON parser, one route, the answer from Redis. Nobody's
 * key is checked. REDIS_URL, PORT.
 */
const store = await RedisFirst.open(process.env['REDIS_URL'] ?? '');
const app = express();
app.disable('x-powered-by');
app.disable('etag');
app.use(express.json());
app.post('/v1/packets/:id/grabs', async (request, response) => {
  const { userId } = request.body as { userId?: unknown };
  if (typeof userId !== 'string' || userId === '') {
    response.status(400).json({ code: 'INVALID_REQUEST' });
    return;
  }
  const result = await store.grab(request.params.id, userId);
  if (result.outcome === 'sold_out') response.status(410).json({ code: 'SOLD_OUT' });
  else response.status(result.outcome === 'granted' ? 201 : 200).json(result);
});
await serve(app, async () => await store.close());
