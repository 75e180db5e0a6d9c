import { createHash } from 'node:crypto';
import type { IdempotencyRequest } from '../idempotency/once.ts';
import { Refusal } from '../refusal.ts';
import type { Authenticator } from './auth.ts';
import { RequestAbortedError } from './body.ts';
import { readInput, type Unread } from './input.ts';
import { problemOf } from './problem.ts';
import type { AnyParts, Principal, Route, RouteAnswer } from './route.ts';

/** A request as any server can hand it over, its body still unread. */
export interface RawRequest extends Unread {
  /** By name, percent-decoded. */
  params: Record<string, string>;
  /** What follows the question mark, still percent-encoded. */
  query: string;
  /** By lower-case name. */
  header: (name: string) => string | undefined;
  /** Called at most once, after the caller is known. Refuses: PAYLOAD_TOO_LARGE. Throws RequestAbortedError. */
  readBody: (limitBytes: number) => Promise<Buffer>;
  requestId: string;
}

export interface RawAnswer {
  status: number;
  headers: Readonly<Record<string, string>>;
  body: string;
  /** For the log: the problem's code, and who called. */
  code: string | null;
  clientId: string | null;
}

export interface HandleDeps {
  authenticator: Authenticator;
  /** Hears of every error that is not a refusal: a person must look. */
  failed: (error: unknown, route: Pick<Route, 'name'>, requestId: string) => void;
  /** Checks answers against their schemas too, and fails when one does not fit: in tests. */
  checkAnswers?: boolean;
}

/**
 * The one way of a request through a route: who calls, may they, is the request whole and right, then the handler,
 * then the answer or the problem document. It knows no server, so that every server serves the same.
 */
export async function handle(route: Route, request: RawRequest, deps: HandleDeps): Promise<RawAnswer> {
  let principal: Principal | null = null;
  try {
    principal = await deps.authenticator.principalOf(request.header('authorization'));
    assertMay(principal, route);
    const input = await readInput(route, request);
    assertOwn(principal, route, input);
    const idempotency = idempotencyOf(route, request, principal, input.body);
    const { params, query, headers, body } = input;
    const { requestId } = request;
    const answer = await route.handler({ params, query, headers, body, principal, requestId, idempotency });
    if (deps.checkAnswers === true) assertAnswer(route, answer);
    return answered(answer, principal);
  } catch (error) {
    const clientId = principal?.clientId ?? null;
    // Nobody hears this answer; the status is for the log and the metrics.
    if (error instanceof RequestAbortedError)
      return { status: 499, headers: {}, body: '', code: 'ABORTED', clientId };
    return { ...refuse(refusalOf(error, route, request.requestId, deps), request.requestId), clientId };
  }
}

/** A refusal as an answer. */
export function refuse(refusal: Refusal, requestId: string): RawAnswer {
  const { problem, headers } = problemOf(refusal, requestId);
  return {
    status: problem.status,
    headers: { 'content-type': 'application/problem+json; charset=utf-8', ...headers },
    body: JSON.stringify(problem),
    code: refusal.code,
    clientId: null,
  };
}

/** Any error that is not a refusal is reported to whoever watches, and the caller learns nothing of it. */
export function refusalOf(
  error: unknown,
  route: Pick<Route, 'name'>,
  requestId: string,
  deps: Pick<HandleDeps, 'failed'>,
): Refusal {
  if (error instanceof Refusal) return error;
  deps.failed(error, route, requestId);
  return new Refusal('INTERNAL', { detail: 'The request id helps to find out why.' });
}

const json = { 'content-type': 'application/json; charset=utf-8' };

function answered(answer: RouteAnswer, principal: Principal): RawAnswer {
  const isPlain = answer.headers === undefined && answer.replayed !== true;
  return {
    status: answer.status,
    headers: isPlain
      ? json
      : {
          ...json,
          ...answer.headers,
          ...(answer.replayed === true ? { 'idempotent-replayed': 'true' } : {}),
        },
    body: JSON.stringify(answer.body),
    code: null,
    clientId: principal.clientId,
  };
}

function assertMay(principal: Principal, route: Route): void {
  if (principal.kind === 'participant') {
    if (route.participant === null) throw new Refusal('FORBIDDEN', { detail: 'This call needs an API key.' });
    return;
  }
  if (principal.scopes.has('admin') || route.scopes.some((scope) => principal.scopes.has(scope))) return;
  throw new Refusal('FORBIDDEN', { detail: `This call needs the scope ${route.scopes.join(' or ')}.` });
}

function assertOwn(principal: Principal, route: Route, input: AnyParts): void {
  if (principal.kind === 'key' || route.participant?.(principal.userId, input) === true) return;
  throw new Refusal('FORBIDDEN', { detail: 'A participant token acts for its own user only.' });
}

function idempotencyOf(
  route: Route,
  request: RawRequest,
  principal: Principal,
  body: unknown,
): IdempotencyRequest | null {
  if (route.idempotencyKey === undefined) return null;
  const key = request.header('idempotency-key');
  if (key === undefined) return null;
  const fingerprint = createHash('sha256')
    .update([principal.clientId, route.method, canonicalPath(route, request), canonical(body)].join('\n'))
    .digest('hex');
  return { client: principal.clientId, key, fingerprint };
}

/** The path in one spelling: `%61lice`, or a slash at the end, names the same thing as `alice`. */
function canonicalPath(route: Route, { params }: RawRequest): string {
  return route.path.replaceAll(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(params[name] ?? ''));
}

/** The validated body with its keys in order: two spellings of one request are one request. */
function canonical(value: unknown): string {
  return (
    JSON.stringify(value, (_, inner: unknown) =>
      typeof inner === 'object' && inner !== null && !Array.isArray(inner)
        ? Object.fromEntries(Object.entries(inner).sort(([a], [b]) => (a < b ? -1 : 1)))
        : inner,
    ) ?? ''
  );
}

function assertAnswer(route: Route, answer: RouteAnswer): void {
  const schema = route.success[answer.status];
  if (schema === undefined)
    throw new Error(`${route.name} answered ${answer.status}, which it does not declare`);
  const result = schema.safeParse(answer.body);
  if (!result.success)
    throw new Error(`${route.name} answered what it does not declare: ${result.error.message}`);
}
