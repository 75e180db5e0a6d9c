import { z } from 'zod';
import { Refusal } from '../refusal.ts';
import { Faults } from './faults.ts';
import { parseStrictJson } from './json.ts';
import { defaultBodyBytes, type AnyParts, type Route } from './route.ts';

/** What reading a request's parts needs of it; see RawRequest. */
export interface Unread {
  params: Record<string, string>;
  query: string;
  header: (name: string) => string | undefined;
  readBody: (limitBytes: number) => Promise<Buffer>;
}

const utf8 = new TextDecoder('utf-8', { fatal: true });
const noParameters = z.strictObject({});

/**
 * Reads and validates all parts of a request and reports every fault at once. Refuses: PAYLOAD_TOO_LARGE,
 * UNSUPPORTED_MEDIA_TYPE, INVALID_REQUEST.
 */
export async function readInput(route: Route, request: Unread): Promise<AnyParts> {
  const bytes = await request.readBody(route.maxBodyBytes ?? defaultBodyBytes);
  assertJson(request, bytes);
  const faults = new Faults();
  const check = (schema: z.ZodType | undefined, value: unknown, root: string): unknown => {
    if (schema === undefined) return undefined;
    const result = schema.safeParse(value);
    if (result.success) return result.data;
    faults.addIssues(result.error, root);
    return undefined;
  };
  const params = check(route.params, request.params, 'path');
  // Nearly no call that is hot has a query.
  const hasQuery = request.query !== '' || route.query !== undefined;
  const query = hasQuery
    ? check(route.query ?? noParameters, readQuery(request.query, faults), 'query')
    : undefined;
  const headers =
    route.headers === undefined ? undefined : check(route.headers, readHeaders(route, request), 'header');
  checkIdempotencyKey(route, request, faults);
  const read = readJson(bytes, faults);
  let body: unknown;
  if (route.body === undefined) checkNoFields(read, faults);
  else if (read === nothing) faults.add('body', 'is missing');
  else if (read !== unreadable) body = check(route.body, read, 'body');
  faults.refuseIfAny();
  return { params, query: route.query === undefined ? undefined : query, headers, body };
}

/** A body must say that it is JSON; where there is none, only a wrong statement about it is refused. */
function assertJson(request: Unread, bytes: Buffer): void {
  const type = request.header('content-type');
  const encoding = request.header('content-encoding') ?? 'identity';
  if (bytes.length === 0 && type === undefined) return;
  if (bytes.length > 0 && encoding.trim().toLowerCase() !== 'identity') {
    throw new Refusal('UNSUPPORTED_MEDIA_TYPE', { detail: 'Send the body without Content-Encoding.' });
  }
  if (bytes.length > 0 && !isJson(type)) {
    throw new Refusal('UNSUPPORTED_MEDIA_TYPE', {
      detail: 'Send the body as "Content-Type: application/json", in UTF-8.',
    });
  }
}

function isJson(contentType: string | undefined): boolean {
  if (contentType === 'application/json') return true;
  const [type = '', ...parameters] = (contentType ?? '').split(';').map((part) => part.trim().toLowerCase());
  const charset = parameters.find((parameter) => parameter.startsWith('charset='));
  return type === 'application/json' && (charset === undefined || /^charset="?utf-?8"?$/.test(charset));
}

const nothing = Symbol('no body');
const unreadable = Symbol('unreadable');

/** The body's value, or `nothing`, or `unreadable` when it is no JSON at all. */
function readJson(bytes: Buffer, faults: Faults): unknown {
  if (bytes.length === 0) return nothing;
  let text: string;
  try {
    text = utf8.decode(bytes);
  } catch {
    faults.add('body', 'is not UTF-8');
    return unreadable;
  }
  try {
    const { value, faults: hidden } = parseStrictJson(text);
    faults.addAll(hidden);
    return value;
  } catch {
    faults.add('body', 'is not JSON');
    return unreadable;
  }
}

/** Many clients send `{}` with every POST; that is no field. */
function checkNoFields(value: unknown, faults: Faults): void {
  if (value === nothing || value === unreadable) return;
  const result = noParameters.safeParse(value);
  if (!result.success) faults.addIssues(result.error, 'body');
}

function readQuery(query: string, faults: Faults): Record<string, string> {
  try {
    decodeURIComponent(query);
  } catch {
    faults.add('query', 'is not percent-encoded UTF-8');
    return {};
  }
  const values = new Map<string, string>();
  for (const [name, value] of new URLSearchParams(query)) {
    if (values.has(name)) faults.add(`query.${name.slice(0, 40)}`, 'appears more than once');
    values.set(name, value);
  }
  // Defines its properties, whatever their names; an assignment to `__proto__` would do something else.
  return Object.fromEntries(values);
}

/** Only the declared ones: a caller and what stands between may send any others. */
function readHeaders(route: Route, request: Unread): Record<string, string> {
  const values = Object.keys(route.headers?.shape ?? {}).flatMap((name) => {
    const value = request.header(name);
    return value === undefined ? [] : [[name, value] as const];
  });
  return Object.fromEntries(values);
}

function checkIdempotencyKey(route: Route, request: Unread, faults: Faults): void {
  const key = request.header('idempotency-key');
  if (route.idempotencyKey === undefined || (route.idempotencyKey === 'optional' && key === undefined))
    return;
  const path = 'header.idempotency-key';
  if (key === undefined) faults.add(path, 'is missing');
  else if (!/^[\x21-\x7e]{1,255}$/.test(key)) faults.add(path, 'must be 1 to 255 visible ASCII characters');
}
