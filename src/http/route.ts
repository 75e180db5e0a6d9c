import type { z } from 'zod';
import type { IdempotencyRequest } from '../idempotency/once.ts';
import type { RefusalCode } from '../refusal.ts';

/** What an API key may do; `admin` may do all of it. */
export const scopes = [
  'accounts:read',
  'accounts:write',
  'packets:read',
  'packets:write',
  'packets:grab',
  'campaigns:write',
  'events:read',
  'events:write',
  'events:register',
  'checkin',
  'checkin:search',
  'audit:read',
  'audit:run',
  'webhooks:write',
  'tokens:write',
  'admin',
] as const;
export type Scope = (typeof scopes)[number];

/** Who calls: an app with an API key, or one participant with a token of its own. */
export type Principal =
  | { kind: 'key'; clientId: string; scopes: ReadonlySet<Scope> }
  | { kind: 'participant'; clientId: string; userId: string };

/** The limit of a request's body, in bytes, where a route names no other. */
export const defaultBodyBytes = 64 * 1024;

type Schema = z.ZodType | undefined;
type HeaderSchema = z.ZodObject | undefined;
type Parsed<S extends Schema> = S extends z.ZodType ? z.output<S> : undefined;

/** What a caller sent, validated. A part that the route does not declare is undefined. */
export interface RequestParts<
  Params extends Schema,
  Query extends Schema,
  Body extends Schema,
  Headers extends HeaderSchema,
> {
  params: Parsed<Params>;
  query: Parsed<Query>;
  body: Parsed<Body>;
  headers: Parsed<Headers>;
}

export interface RouteInput<
  Params extends Schema,
  Query extends Schema,
  Body extends Schema,
  Headers extends HeaderSchema,
> extends RequestParts<Params, Query, Body, Headers> {
  principal: Principal;
  requestId: string;
  /** Null when the route takes no key, or takes one optionally and the caller sent none. */
  idempotency: IdempotencyRequest | null;
}

export interface RouteAnswer {
  status: number;
  body: unknown;
  /** Further headers, with lower-case names. */
  headers?: Record<string, string>;
  /** True when this is the stored answer of an earlier request. */
  replayed?: boolean;
}

/**
 * A call of the API, declared once. Validation, scopes, problem documents, the log's and the metrics' names and the
 * OpenAPI document all derive from it. It knows nothing of the server that serves it.
 */
export interface RouteDefinition<
  Params extends Schema,
  Query extends Schema,
  Body extends Schema,
  Headers extends HeaderSchema,
> {
  /** Unique; the operationId, and the name in logs and metrics. */
  name: string;
  method: 'GET' | 'POST' | 'PATCH' | 'DELETE';
  /** With `{name}` for parameters. */
  path: string;
  summary: string;
  /** A key needs any one of them. */
  scopes: readonly Scope[];
  /** Whether a participant's token, bound to `userId`, may make this call. Left out: it may not. */
  participant?: (userId: string, input: RequestParts<Params, Query, Body, Headers>) => boolean;
  params?: Params;
  query?: Query;
  body?: Body;
  /** Headers that the handler reads, by lower-case name; a caller may send any others too. */
  headers?: Headers;
  /** The shape of each 2xx answer. */
  success: Record<number, z.ZodType>;
  /** What it may refuse with, beyond what every route may. */
  refusals: readonly RefusalCode[];
  /** Whether the `Idempotency-Key` header must be there; left out, the header means nothing to the route. */
  idempotencyKey?: 'required' | 'optional';
  maxBodyBytes?: number;
  /** Called so often that it is served without the general server's cost: see the fast lane. */
  hot?: boolean;
  handler: (input: RouteInput<Params, Query, Body, Headers>) => Promise<RouteAnswer>;
}

/** The parts of a request whose types have been forgotten. */
export type AnyParts = Record<'params' | 'query' | 'body' | 'headers', unknown>;

/** A route whose schemas' types have been forgotten, as the server holds it. */
export interface Route extends Omit<
  RouteDefinition<Schema, Schema, Schema, HeaderSchema>,
  'participant' | 'handler'
> {
  participant: ((userId: string, input: AnyParts) => boolean) | null;
  handler: (
    input: AnyParts &
      Pick<RouteInput<Schema, Schema, Schema, HeaderSchema>, 'principal' | 'requestId' | 'idempotency'>,
  ) => Promise<RouteAnswer>;
}

/** Declares a route with its types inferred from its schemas. */
export function defineRoute<
  Params extends Schema = undefined,
  Query extends Schema = undefined,
  Body extends Schema = undefined,
  Headers extends HeaderSchema = undefined,
>(definition: RouteDefinition<Params, Query, Body, Headers>): Route {
  // The pipeline hands a handler only what this route's own schemas have produced, so forgetting the types is safe.
  return { ...definition, participant: definition.participant ?? null } as unknown as Route;
}
