import { randomBytes } from 'node:crypto';
import { createServer, type Server } from 'node:http';
import { createRequire } from 'node:module';
import { dirname } from 'node:path';
import express, { type Express, type NextFunction, type Request, type Response } from 'express';
import helmet from 'helmet';
import type { Metrics } from '../observe/metrics.ts';
import { groupBy } from '../group-by.ts';
import { Refusal } from '../refusal.ts';
import { handle, refuse, type HandleDeps, type RawAnswer } from './handle.ts';
import { openApiDocument } from './openapi.ts';
import { defaultBodyBytes, type Route } from './route.ts';

export interface ServerDeps extends HandleDeps {
  metrics: Metrics;
  version: string;
  /** Whether the service can work now; the names tell what was looked at. */
  ready: () => Promise<Record<string, boolean>>;
  /** One structured line for each request. */
  log: (line: Record<string, unknown>) => void;
}

/** Serves every route, and what operators and readers need, on express. */
export function createApp(routes: readonly Route[], deps: ServerDeps): Express {
  const app = express();
  app.disable('x-powered-by');
  app.disable('etag');
  app.set('query parser', false);
  app.use(
    helmet({
      contentSecurityPolicy: {
        useDefaults: false,
        directives: {
          defaultSrc: ["'none'"],
          scriptSrc: ["'self'"],
          styleSrc: ["'self'", "'unsafe-inline'"],
          imgSrc: ["'self'", 'data:'],
          connectSrc: ["'self'"],
          frameAncestors: ["'none'"],
          baseUri: ["'none'"],
          formAction: ["'none'"],
        },
      },
      // Says https to browsers; this server itself speaks http behind whatever ends TLS.
      strictTransportSecurity: false,
    }),
  );
  app.use((request, response, next) => {
    const given = request.get('x-request-id');
    const requestId =
      given !== undefined && /^[A-Za-z0-9._-]{1,128}$/.test(given) ? given : randomBytes(12).toString('hex');
    response.locals['requestId'] = requestId;
    response.set('x-request-id', requestId);
    next();
  });
  addSystemRoutes(app, routes, deps);
  for (const route of routes) addRoute(app, route, deps);
  addFallbacks(app, routes, deps);
  return app;
}

function addRoute(app: Express, route: Route, deps: ServerDeps): void {
  const path = route.path.replaceAll(/\{(\w+)\}/g, ':$1');
  const verb = route.method.toLowerCase() as 'get' | 'post' | 'patch' | 'delete';
  const readBody = express.raw({
    type: () => true,
    limit: route.maxBodyBytes ?? defaultBodyBytes,
    inflate: false,
  });
  app[verb](path, readBody, async (request: Request, response: Response) => {
    const started = performance.now();
    const body: unknown = request.body;
    const questionMark = request.url.indexOf('?');
    const answer = await handle(
      route,
      {
        method: route.method,
        path: questionMark === -1 ? request.url : request.url.slice(0, questionMark),
        params: request.params as Record<string, string>,
        query: new URLSearchParams(questionMark === -1 ? '' : request.url.slice(questionMark)),
        header: (name) => request.get(name),
        body: Buffer.isBuffer(body) ? body : Buffer.alloc(0),
        requestId: requestIdOf(response),
      },
      deps,
    );
    send(response, answer);
    observe(deps, request, response, { route, answer, ms: performance.now() - started });
  });
}

function addSystemRoutes(app: Express, routes: readonly Route[], deps: ServerDeps): void {
  const document = JSON.stringify(openApiDocument(routes, deps.version));
  app.get('/healthz', (_, response) => void response.json({ status: 'alive' }));
  app.get('/readyz', async (_, response) => {
    const checks = await deps.ready();
    const ok = Object.values(checks).every(Boolean);
    response.status(ok ? 200 : 503).json({ status: ok ? 'ready' : 'not ready', checks });
  });
  app.get('/metrics', async (_, response) => {
    response
      .set('content-type', deps.metrics.registry.contentType)
      .send(await deps.metrics.registry.metrics());
  });
  app.get('/openapi.json', (_, response) => void response.type('application/json').send(document));
  app.get('/docs', (_, response) => void response.type('html').send(docsPage));
  app.get('/docs/start.js', (_, response) => void response.type('js').send(docsScript));
  const assets = dirname(createRequire(import.meta.url).resolve('swagger-ui-dist/package.json'));
  app.use('/docs', express.static(assets, { index: false }));
}

function addFallbacks(app: Express, routes: readonly Route[], deps: ServerDeps): void {
  const patterns = [...groupBy(routes, ({ path }) => path)].map(([path, group]) => ({
    pattern: new RegExp(`^${path.replaceAll(/\{\w+\}/g, '[^/]+')}$`),
    allow: group.map(({ method }) => method).join(', '),
  }));
  app.use((request: Request, response: Response) => {
    const known = patterns.find(({ pattern }) => pattern.test(request.path));
    const refusal =
      known === undefined
        ? new Refusal('NOT_FOUND', { detail: 'There is no such path. See /docs.' })
        : new Refusal('METHOD_NOT_ALLOWED', {
            detail: `Allowed here: ${known.allow}.`,
            extra: { allow: known.allow },
          });
    const answer = refuse(refusal, requestIdOf(response));
    send(response, answer);
    observe(deps, request, response, { route: null, answer, ms: 0 });
  });
  // express knows an error handler by its four parameters.
  app.use((error: unknown, request: Request, response: Response, _next: NextFunction) => {
    const refusal = refusalOf(error);
    if (refusal.code === 'INTERNAL') deps.failed(error, { name: 'express' } as Route, requestIdOf(response));
    if (response.headersSent || request.aborted) return;
    const answer = refuse(refusal, requestIdOf(response));
    send(response, answer);
    observe(deps, request, response, { route: null, answer, ms: 0 });
  });
}

/** What express itself, or its body reader, stumbled over. */
function refusalOf(error: unknown): Refusal {
  const type = typeof error === 'object' && error !== null && 'type' in error ? error.type : '';
  const status = typeof error === 'object' && error !== null && 'status' in error ? error.status : 500;
  if (type === 'entity.too.large') {
    const limit = typeof error === 'object' && error !== null && 'limit' in error ? String(error.limit) : '';
    return new Refusal('PAYLOAD_TOO_LARGE', { detail: `The body may have at most ${limit} bytes.` });
  }
  if (type === 'encoding.unsupported') {
    return new Refusal('UNSUPPORTED_MEDIA_TYPE', { detail: 'Send the body without Content-Encoding.' });
  }
  if (error instanceof URIError || (typeof status === 'number' && status === 400)) {
    const path = error instanceof URIError ? 'path' : 'body';
    return new Refusal('INVALID_REQUEST', { faults: [{ path, message: 'cannot be decoded' }] });
  }
  return new Refusal('INTERNAL', { detail: 'The request id helps to find out why.' });
}

function send(response: Response, answer: RawAnswer): void {
  response.status(answer.status).set(answer.headers).set('cache-control', 'no-store');
  // A string would make express guess a charset again; bytes go out as they are.
  response.end(answer.body);
}

function observe(
  deps: ServerDeps,
  request: Request,
  response: Response,
  { route, answer, ms }: { route: Route | null; answer: RawAnswer; ms: number },
): void {
  const name = route?.name ?? 'none';
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

const docsPage = `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Luckyledger API</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="stylesheet" href="/docs/swagger-ui.css"></head>
<body><div id="api"></div><script src="/docs/swagger-ui-bundle.js"></script><script src="/docs/start.js"></script></body></html>
`;
const docsScript = `SwaggerUIBundle({ url: '/openapi.json', dom_id: '#api', deepLinking: true });\n`;

export interface Listening {
  /** For example `http://127.0.0.1:8080`. */
  address: string;
  /** Takes no more connections, lets running requests end, and cuts what is left at the deadline. */
  close: (deadlineMs: number) => Promise<void>;
}

export async function listen(app: Express, host: string, port: number): Promise<Listening> {
  const server: Server = createServer(
    { requestTimeout: 30_000, headersTimeout: 10_000, keepAliveTimeout: 65_000, maxHeaderSize: 16_384 },
    app,
  );
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, host, 1_024, resolve);
  });
  const bound = server.address();
  if (bound === null || typeof bound === 'string') throw new Error('the server listens on no port');
  const shownHost = host.includes(':') ? `[${host}]` : host;
  return {
    address: `http://${shownHost}:${bound.port}`,
    close: async (deadlineMs) => {
      const cut = setTimeout(() => server.closeAllConnections(), deadlineMs);
      await new Promise<void>((resolve) => {
        server.close(() => resolve());
        server.closeIdleConnections();
      });
      clearTimeout(cut);
    },
  };
}
