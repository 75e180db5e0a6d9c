import express from 'express';
import { serve } from './serve.ts';

/** What express alone can do: one route on the path of a grab, a constant answer, no body parser, no store. PORT. */
const answer = {
  packetId: '01JGFJJZ00000000000000000A',
  userId: 'user-1',
  seq: 1,
  amount: 100,
  grabbedAt: '2030-01-31T12:00:00.000Z',
  outcome: 'granted',
};
const app = express();
app.disable('x-powered-by');
app.disable('etag');
app.post('/v1/packets/:id/grabs', (_request, response) => {
  response.status(201).json(answer);
});
await serve(app);
