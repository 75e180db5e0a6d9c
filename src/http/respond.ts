import { randomUUID } from 'node:crypto';
import type { ServerResponse } from 'node:http';
import type { Metrics } from '../observe/metrics.ts';
import type { RawAnswer } from './handle.ts';
import type { Route } from './route.ts';

export interface RespondDeps {
  metrics: Metrics;
  /** One structured line for each request. */
  log: (line: Record<string, unknown>) => void;
}

/** A request that has come in: its name, and when by `performance.now()`. */
export interface Begun {
  method: string;
  requestId: string;
  startedMs: number;
}

/** Names a request by what the caller calls it, if that is fit to be logged and sent back, and starts its clock. */
export function begin(method: string, givenId: string | undefined): Begun {
  const fit = givenId !== undefined && /^[A-Za-z0-9._-]{1,128}$/.test(givenId);
  return {
    method,
    requestId: fit ? givenId : randomUUID(),
    startedMs: performance.now(),
  };
}

/**
 * Sends an answer, and tells the log and the metrics of it. It needs no express: whatever serves a route answers here.
 * `route` is null when no route was found.
 */
export function respond(
  deps: RespondDeps,
  begun: Begun,
  response: ServerResponse,
  route: Route | null,
  answer: RawAnswer,
): void {
  if (!response.destroyed) {
    response.statusCode = answer.status;
    response.setHeader('x-request-id', begun.requestId);
    response.setHeader('cache-control', 'no-store');
    for (const [name, value] of Object.entries(answer.headers)) response.setHeader(name, value);
    response.end(answer.body);
  }
  tell(deps, begun, route, answer);
}

/** Tells the log and the metrics of an answer that was sent. */
export function tell(deps: RespondDeps, begun: Begun, route: Route | null, answer: RawAnswer): void {
  const ms = performance.now() - begun.startedMs;
  const name = route?.name ?? 'none';
  deps.metrics.requests.inc({ route: name, status: String(answer.status) });
  deps.metrics.requestSeconds.observe({ route: name }, ms / 1000);
  deps.log({
    message: 'request',
    route: name,
    method: begun.method,
    // The template, not the path: paths hold user ids.
    path: route?.path ?? null,
    status: answer.status,
    ms: Math.round(ms * 10) / 10,
    requestId: begun.requestId,
    clientId: answer.clientId,
    ...(answer.code === null ? {} : { code: answer.code }),
  });
}
