import { createHash } from 'node:crypto';
import type { z } from 'zod';
import type { IdempotencyRequest } from '../idempotency/once.ts';
import { Refusal, type Fault } from '../refusal.ts';
import type { Authenticator } from './auth.ts';
import { parseStrictJson } from './json.ts';
import { problemOf } from './problem.ts';
import type { Principal, Route } from './route.ts';

/** A request as any server can hand it over. */
export interface RawRequest {
  method: string;
  /** The path without the query, still percent-encoded. */
  path: string;
  params: Record<string, string>;
  query: URLSearchParams;
  header: (name: string) => string | undefined;
  body: Buffer;
  requestId: string;
}

export interface RawAnswer {
  status: number;
  headers: Record<string, string>;
  body: string;
  /** For the log: the problem's code, and who called. */
  code: string | null;
  clientId: string | null;
}

export interface HandleDeps {
  authenticator: Authenticator;
  /** Hears of every error that is not a refusal: a person must look. */
  failed: (error: unknown, route: Route, requestId: string) => void;
  /** Checks answers against their schemas too, and fails when one does not fit: in tests. */
  checkAnswers?: boolean;
}

const utf8 = new TextDecoder('utf-8', { fatal: true });

/**
 * The one way of a request through a route: who calls, may they, is the request whole and right, then the handler,
 * then the answer or the problem document. Pure of any server, so that every server serves the same.
 */
export async function handle(route: Route, request: RawRequest, deps: HandleDeps): Promise<RawAnswer> {
  let principal: Principal | null = null;
  try {
    principal = await deps.authenticator.principalOf(request.header('authorization'));
    assertMay(principal, route);
    const input = readInput(route, request);
    if (principal.kind === 'participant' && route.participant?.(principal.userId, input) !== true) {
      throw new Refusal('FORBIDDEN', { detail: 'A participant token acts for its own user only.' });
    }
    const idempotency = idempotencyOf(route, request, principal, input.body);
    const answer = await route.handler({ ...input, principal, requestId: request.requestId, idempotency });
    if (deps.checkAnswers === true) assertAnswer(route, answer);
    return {
      status: answer.status,
      headers: {
        'content-type': 'application/json; charset=utf-8',
        ...(answer.replayed === true ? { 'idempotent-replayed': 'true' } : {}),
      },
      body: JSON.stringify(answer.body),
      code: null,
      clientId: principal.clientId,
    };
  } catch (error) {
    const refusal =
      error instanceof Refusal
        ? error
        : new Refusal('INTERNAL', { detail: 'The request id helps to find out why.' });
    if (!(error instanceof Refusal)) deps.failed(error, route, request.requestId);
    return { ...refuse(refusal, request.requestId), clientId: principal?.clientId ?? null };
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

function assertMay(principal: Principal, route: Route): void {
  if (principal.kind === 'participant') {
    if (route.participant === null) throw new Refusal('FORBIDDEN', { detail: 'This call needs an API key.' });
    return;
  }
  if (principal.scopes.has('admin') || route.scopes.some((scope) => principal.scopes.has(scope))) return;
  throw new Refusal('FORBIDDEN', { detail: `This call needs the scope ${route.scopes.join(' or ')}.` });
}

/** Validates everything and reports every fault at once. */
function readInput(route: Route, request: RawRequest): { params: unknown; query: unknown; body: unknown } {
  const faults: Fault[] = [];
  const check = (schema: z.ZodType | undefined, value: unknown, root: string): unknown => {
    if (schema === undefined) return undefined;
    const result = schema.safeParse(value);
    if (result.success) return result.data;
    faults.push(...faultsOf(result.error, root));
    return undefined;
  };
  const params = check(route.params, request.params, 'path');
  const query = check(route.query, readQuery(request.query, faults), 'query');
  if (route.query === undefined && request.query.size > 0) {
    for (const name of new Set(request.query.keys()))
      faults.push({ path: `query.${name.slice(0, 40)}`, message: 'is not a known parameter' });
  }
  const read = readBody(route, request, faults);
  const body = read === unreadable ? undefined : check(route.body, read, 'body');
  if (route.idempotencyKey === 'required' && !isKey(request.header('idempotency-key'))) {
    faults.push({
      path: 'header.Idempotency-Key',
      message: 'is required: 1 to 255 visible ASCII characters',
    });
  }
  if (faults.length > 0) {
    throw new Refusal('INVALID_REQUEST', {
      detail: 'Nothing was written. Correct the faults and repeat.',
      faults: unique(faults),
    });
  }
  return { params, query, body };
}

const unreadable = Symbol('unreadable');

function readBody(route: Route, request: RawRequest, faults: Fault[]): unknown {
  const { body } = request;
  if (route.body === undefined && body.length === 0) return undefined;
  if (body.length > 0 && !isJson(request.header('content-type'))) {
    throw new Refusal('UNSUPPORTED_MEDIA_TYPE', {
      detail: 'Send the body as "Content-Type: application/json".',
    });
  }
  if (body.length === 0) {
    faults.push({ path: 'body', message: 'is missing' });
    return unreadable;
  }
  try {
    const { value, faults: hidden } = parseStrictJson(utf8.decode(body));
    faults.push(...hidden);
    if (route.body !== undefined) return value;
    const empty =
      typeof value === 'object' && value !== null && !Array.isArray(value) && Object.keys(value).length === 0;
    if (!empty) faults.push({ path: 'body', message: 'this call takes no fields' });
    return unreadable;
  } catch (error) {
    faults.push({ path: 'body', message: error instanceof SyntaxError ? 'is not JSON' : 'is not UTF-8' });
    return unreadable;
  }
}

function readQuery(query: URLSearchParams, faults: Fault[]): Record<string, string> {
  const values: Record<string, string> = Object.create(null) as Record<string, string>;
  for (const [name, value] of query) {
    if (name in values)
      faults.push({ path: `query.${name.slice(0, 40)}`, message: 'appears more than once' });
    values[name] = value;
  }
  // zod wants an ordinary object; names come from the caller, so they are defined, never assigned.
  return Object.defineProperties(
    {},
    Object.fromEntries(Object.entries(values).map(([name, value]) => [name, { value, enumerable: true }])),
  ) as Record<string, string>;
}

function faultsOf(error: z.ZodError, root: string): Fault[] {
  return error.issues.flatMap((issue) => {
    const path = [root, ...issue.path.map(String)].join('.');
    if (issue.code === 'unrecognized_keys') {
      return issue.keys.map((key) => ({
        path: `${path}.${key.slice(0, 40)}`,
        message: 'is not a known field',
      }));
    }
    return [{ path, message: issue.message }];
  });
}

function unique(faults: Fault[]): Fault[] {
  return [...new Map(faults.map((fault) => [`${fault.path}\n${fault.message}`, fault])).values()];
}

function idempotencyOf(
  route: Route,
  request: RawRequest,
  principal: Principal,
  body: unknown,
): IdempotencyRequest | null {
  const key = request.header('idempotency-key');
  if (route.idempotencyKey === undefined || key === undefined) return null;
  const fingerprint = createHash('sha256')
    .update([principal.clientId, request.method, request.path, canonical(body)].join('\n'))
    .digest('hex');
  return { client: principal.clientId, key, fingerprint };
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

function isKey(key: string | undefined): boolean {
  return key !== undefined && /^[\x21-\x7e]{1,255}$/.test(key);
}

function isJson(contentType: string | undefined): boolean {
  return /^application\/json\s*(;\s*charset="?utf-8"?\s*)?$/i.test(contentType ?? '');
}

function assertAnswer(route: Route, answer: { status: number; body: unknown }): void {
  const schema = route.success[answer.status];
  if (schema === undefined)
    throw new Error(`${route.name} answered ${answer.status}, which it does not declare`);
  const result = schema.safeParse(answer.body);
  if (!result.success)
    throw new Error(`${route.name} answered what it does not declare: ${result.error.message}`);
}
