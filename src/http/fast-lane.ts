import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import { readBody } from './body.ts';
import { handle } from './handle.ts';
import { begin, tell, type Begun } from './respond.ts';
import type { RawAnswer } from './handle.ts';
import type { Route } from './route.ts';
import { securityHeaders, type ServerDeps } from './server.ts';

/**
 * Serves the routes that are `hot` without express, through the same pipeline, and leaves all else to `rest`: express
 * alone costs 130 µs of CPU for each request, more than a grab's share of its transaction. It takes a request only
 * when its path is written in the one plain way (no query, no percent-encoding, no slash at the end); any other spelling
 * is answered by `rest`, so the two never disagree about what a path means.
 */
export function fastLane(routes: readonly Route[], rest: RequestListener, deps: ServerDeps): RequestListener {
  const lanes = routes.filter(({ hot }) => hot === true).map(laneOf);
  const fixed = [...headersOf(securityHeaders()), 'cache-control', 'no-store'];
  return (request, response) => {
    for (const { route, pattern, names } of lanes) {
      if (request.method !== route.method) continue;
      const match = pattern.exec(request.url ?? '');
      if (match === null) continue;
      const params = Object.fromEntries(names.map((name, index) => [name, match[index + 1] ?? '']));
      void serve(route, params, request, response, fixed, deps);
      return;
    }
    rest(request, response);
  };
}

interface Lane {
  route: Route;
  pattern: RegExp;
  names: string[];
}

/** Parameters of unreserved characters only: they mean themselves, encoded or not. */
function laneOf(route: Route): Lane {
  const names = [...route.path.matchAll(/\{(\w+)\}/g)].map(([, name = '']) => name);
  const pattern = new RegExp(`^${route.path.replaceAll(/\{\w+\}/g, '([A-Za-z0-9_~-]+)')}$`);
  return { route, pattern, names };
}

async function serve(
  route: Route,
  params: Record<string, string>,
  request: IncomingMessage,
  response: ServerResponse,
  fixed: readonly string[],
  deps: ServerDeps,
): Promise<void> {
  const header = (name: string): string | undefined => {
    const value = request.headers[name];
    return Array.isArray(value) ? value.join(', ') : value;
  };
  const begun = begin(route.method, header('x-request-id'));
  try {
    const answer = await handle(
      route,
      {
        params,
        query: '',
        header,
        readBody: async (limitBytes) => await readBody(request, limitBytes),
        requestId: begun.requestId,
      },
      deps,
    );
    send(response, begun, answer, fixed);
    tell(deps, begun, route, answer);
  } catch (error) {
    // The pipeline answers every error itself, so this one is of the lane's own making.
    deps.failed(error, route, begun.requestId);
    response.destroy();
  }
}

/** All headers in one list, which Node writes as they are. */
function send(response: ServerResponse, begun: Begun, answer: RawAnswer, fixed: readonly string[]): void {
  if (response.destroyed) return;
  const { headers, body } = answer;
  const list = fixed.concat('x-request-id', begun.requestId);
  for (const name in headers) list.push(name, headers[name] ?? '');
  list.push('content-length', String(Buffer.byteLength(body)));
  response.writeHead(answer.status, list);
  response.end(body);
}

/** What a middleware sets on an answer, by asking it once. */
function headersOf(middleware: ReturnType<typeof securityHeaders>): string[] {
  const headers: string[] = [];
  const probe = {
    setHeader: (name: string, value: unknown) => void headers.push(name, String(value)),
    removeHeader: () => {},
  };
  middleware({} as IncomingMessage, probe as unknown as ServerResponse, (error) => {
    if (error !== undefined) throw error as Error;
  });
  return headers;
}
