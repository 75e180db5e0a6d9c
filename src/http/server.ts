import { randomBytes } from 'node:crypto';
import express, { type Express, type NextFunction, type Request, type Response } from 'express';
import helmet from 'helmet';
import { groupBy } from '../group-by.ts';
import { Refusal } from '../refusal.ts';
import { readBody } from './body.ts';
import { handle, refusalOf, refuse, type HandleDeps, type RawAnswer } from './handle.ts';
import type { Route } from './route.ts';
import { addSystemRoutes, systemPaths, type SystemDeps } from './system-routes.ts';

export { listen, type Listening } from './lifecycle.ts';

export interface ServerDeps extends HandleDeps, SystemDeps {
  /** One structured line for each request. */
  log: (line: Record<string, unknown>) => void;
}

/** Serves every route, and what operators and readers need, on express. */
export function createApp(routes: readonly Route[], deps: ServerDeps): Express {
  const app = express();
  app.disable('x-powered-by');
  app.disable('etag');
  // The pipeline parses the query itself: the parsers of express would make objects of it.
  app.set('query parser', false);
  app.use(securityHeaders());
  app.use(begin);
  addSystemRoutes(app, routes, deps);
  for (const route of routes) addRoute(app, route, deps);
  addFallbacks(app, routes, deps);
  return app;
}

function securityHeaders(): ReturnType<typeof helmet> {
  return helmet({
    contentSecurityPolicy: {
      useDefaults: false,
      directives: {
        defaultSrc: ["'none'"],
        scriptSrc: ["'self'"],
        styleSrc: ["'self'"],
        // The API page's style sheet draws its icons from data: URLs.
        imgSrc: ["'self'", 'data:'],
        connectSrc: ["'self'"],
        frameAncestors: ["'none'"],
        baseUri: ["'none'"],
        formAction: ["'none'"],
      },
    },
    // Says https to browsers; this server itself speaks http behind whatever ends TLS.
    strictTransportSecurity: false,
  });
}

/** Names the request and starts its clock. Refuses a path that is not ASCII: its bytes would be read as Latin-1. */
function begin(request: Request, response: Response, next: NextFunction): void {
  const given = request.get('x-request-id');
  const requestId =
    given !== undefined && /^[A-Za-z0-9._-]{1,128}$/.test(given) ? given : randomBytes(12).toString('hex');
  response.locals['requestId'] = requestId;
  response.locals['startedMs'] = performance.now();
  response.set({ 'x-request-id': requestId, 'cache-control': 'no-store' });
  if (!/^[\x21-\x7e]*$/.test(request.url)) throw badPath();
  next();
}

function addRoute(app: Express, route: Route, deps: ServerDeps): void {
  const path = route.path.replaceAll(/\{(\w+)\}/g, ':$1');
  const verb = route.method.toLowerCase() as 'get' | 'post' | 'patch' | 'delete';
  app[verb](path, async (request: Request, response: Response) => {
    const questionMark = request.url.indexOf('?');
    const answer = await handle(
      route,
      {
        params: request.params as Record<string, string>,
        query: questionMark === -1 ? '' : request.url.slice(questionMark + 1),
        header: (name) => request.get(name),
        readBody: async (limitBytes) => await readBody(request, limitBytes),
        requestId: requestIdOf(response),
      },
      deps,
    );
    finish(deps, request, response, { route, answer });
  });
}

/** No such path, no such method, and what express itself stumbled over. */
function addFallbacks(app: Express, routes: readonly Route[], deps: ServerDeps): void {
  const allowedAt = allowedMethods(routes);
  app.use((request: Request, response: Response) => {
    const allow = allowedAt(request.path);
    const refusal =
      allow === undefined
        ? new Refusal('NOT_FOUND', { detail: 'There is no such path. See /docs.' })
        : new Refusal('METHOD_NOT_ALLOWED', { detail: `Allowed here: ${allow}.`, extra: { allow } });
    finish(deps, request, response, { route: null, answer: refuse(refusal, requestIdOf(response)) });
  });
  // express knows an error handler by its four parameters.
  app.use((error: unknown, request: Request, response: Response, _next: NextFunction) => {
    const requestId = requestIdOf(response);
    // express decodes parameters before any route runs.
    const refusal =
      error instanceof URIError ? badPath() : refusalOf(error, { name: 'none' }, requestId, deps);
    if (response.headersSent) response.destroy();
    else finish(deps, request, response, { route: null, answer: refuse(refusal, requestId) });
  });
}

/** The methods that a path allows, or undefined for a path that does not exist. */
function allowedMethods(routes: readonly Route[]): (path: string) => string | undefined {
  const known: readonly Pick<Route, 'path' | 'method'>[] = [
    ...routes,
    ...systemPaths.map((path) => ({ path, method: 'GET' as const })),
  ];
  const patterns = [...groupBy(known, ({ path }) => path)].map(([path, group]) => ({
    // As express matches: any case, and perhaps a slash at the end.
    pattern: new RegExp(`^${path.replaceAll('.', '\\.').replaceAll(/\{\w+\}/g, '[^/]+')}/?$`, 'i'),
    allow: group.flatMap(({ method }) => (method === 'GET' ? ['GET', 'HEAD'] : [method])).join(', '),
  }));
  return (path) => patterns.find(({ pattern }) => pattern.test(path))?.allow;
}

function badPath(): Refusal {
  return new Refusal('INVALID_REQUEST', {
    detail: 'Nothing was written. Correct the faults and repeat.',
    faults: [{ path: 'path', message: 'is not percent-encoded UTF-8' }],
  });
}

/** Sends the answer, and tells the log and the metrics of it. */
function finish(
  deps: ServerDeps,
  request: Request,
  response: Response,
  { route, answer }: { route: Route | null; answer: RawAnswer },
): void {
  if (!response.destroyed) {
    response.status(answer.status).set(answer.headers);
    // Not `send`: it would guess a charset, and a string goes out as UTF-8 anyway.
    response.end(answer.body);
  }
  const name = route?.name ?? 'none';
  const ms = performance.now() - Number(response.locals['startedMs']);
  deps.metrics.requests.inc({ route: name, status: String(answer.status) });
  deps.metrics.requestSeconds.observe({ route: name }, ms / 1000);
  deps.log({
    message: 'request',
    route: name,
    method: request.method,
    // The template, not the path: paths hold user ids.
    path: route?.path ?? null,
    status: answer.status,
    ms: Math.round(ms * 10) / 10,
    requestId: requestIdOf(response),
    clientId: answer.clientId,
    ...(answer.code === null ? {} : { code: answer.code }),
  });
}

function requestIdOf(response: Response): string {
  const id: unknown = response.locals['requestId'];
  return typeof id === 'string' ? id : 'none';
}
