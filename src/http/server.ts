import express, { type Express, type NextFunction, type Request, type Response } from 'express';
import helmet from 'helmet';
import { groupBy } from '../group-by.ts';
import { Refusal } from '../refusal.ts';
import { readBody } from './body.ts';
import { handle, refusalOf, refuse, type HandleDeps } from './handle.ts';
import { begin, respond, type Begun, type RespondDeps } from './respond.ts';
import type { Route } from './route.ts';
import { addSystemRoutes, systemPaths, type SystemDeps } from './system-routes.ts';

export type ServerDeps = HandleDeps & SystemDeps & RespondDeps;

/** Serves every route, and what operators and readers need, on express. */
export function createApp(routes: readonly Route[], deps: ServerDeps): Express {
  const app = express();
  app.disable('x-powered-by');
  app.disable('etag');
  // The pipeline parses the query itself: the parsers of express would make objects of it.
  app.set('query parser', false);
  app.use(securityHeaders());
  app.use(receive);
  addSystemRoutes(app, routes, deps);
  for (const route of routes) addRoute(app, route, deps);
  addFallbacks(app, routes, deps);
  return app;
}

/** What browsers are told of every answer. */
export function securityHeaders(): ReturnType<typeof helmet> {
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

/** Names the request. Refuses a path that is not ASCII: its bytes would be read as Latin-1. */
function receive(request: Request, response: Response, next: NextFunction): void {
  const begun = begin(request.method, request.get('x-request-id'));
  response.locals['begun'] = begun;
  // For the pages that express answers itself; routes say so again.
  response.set({ 'x-request-id': begun.requestId, 'cache-control': 'no-store' });
  if (!/^[\x21-\x7e]*$/.test(request.url)) throw badPath();
  next();
}

function begunOf(response: Response): Begun {
  return response.locals['begun'] as Begun;
}

function addRoute(app: Express, route: Route, deps: ServerDeps): void {
  const path = route.path.replaceAll(/\{(\w+)\}/g, ':$1');
  const verb = route.method.toLowerCase() as 'get' | 'post' | 'patch' | 'delete';
  app[verb](path, async (request: Request, response: Response) => {
    const begun = begunOf(response);
    const questionMark = request.url.indexOf('?');
    const answer = await handle(
      route,
      {
        params: request.params as Record<string, string>,
        query: questionMark === -1 ? '' : request.url.slice(questionMark + 1),
        header: (name) => request.get(name),
        readBody: async (limitBytes) => await readBody(request, limitBytes),
        requestId: begun.requestId,
      },
      deps,
    );
    respond(deps, begun, response, route, answer);
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
    const begun = begunOf(response);
    respond(deps, begun, response, null, refuse(refusal, begun.requestId));
  });
  // express knows an error handler by its four parameters.
  app.use((error: unknown, _request: Request, response: Response, _next: NextFunction) => {
    const begun = begunOf(response);
    const refusal = refusalOfExpress(error) ?? refusalOf(error, { name: 'none' }, begun.requestId, deps);
    if (response.headersSent) response.destroy();
    else respond(deps, begun, response, null, refuse(refusal, begun.requestId));
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

/** What express blames on the caller, or null: parameters that it cannot decode, and odd `Range` or `If-Match` headers. */
function refusalOfExpress(error: unknown): Refusal | null {
  if (error instanceof URIError) return badPath();
  const status =
    typeof error === 'object' && error !== null && 'status' in error ? Number(error.status) : 500;
  if (!(status >= 400 && status < 500)) return null;
  return new Refusal('INVALID_REQUEST', { detail: 'The headers ask for what cannot be given.' });
}

function badPath(): Refusal {
  return new Refusal('INVALID_REQUEST', {
    detail: 'Nothing was written. Correct the faults and repeat.',
    faults: [{ path: 'path', message: 'is not percent-encoded UTF-8' }],
  });
}
