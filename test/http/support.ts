import { createHash } from 'node:crypto';
import { connect } from 'node:net';
import { assert } from 'chai';
import { z } from 'zod';
import { Authenticator, type StoredKey } from '../../src/http/auth.ts';
import { defineRoute, type Route, type RouteInput } from '../../src/http/route.ts';
import {
  amount,
  currency,
  cursor,
  isoTime,
  limit,
  listOf,
  packetId,
  userId,
} from '../../src/http/schemas.ts';
import { fastLane } from '../../src/http/fast-lane.ts';
import { listen, type Listening } from '../../src/http/lifecycle.ts';
import { createApp, type ServerDeps } from '../../src/http/server.ts';
import { Metrics } from '../../src/observe/metrics.ts';
import type { Lane } from '../support/lanes.ts';
import { refusalCodes, type RefusalCode } from '../../src/refusal.ts';

/** The real HTTP door with handlers that only tell what reached them: no database. */

export const rootKey = 'the key of the environment';
export const tokenSecret = 'a secret for tokens';
const secretOf = (id: string): string => id.repeat(2);

/** A stored key by its scopes; `grabber` may grab only. */
export const keys = {
  grabber: storedKey('0000000000000001', ['packets:grab']),
  reader: storedKey('0000000000000002', ['packets:read', 'accounts:read']),
  revoked: { ...storedKey('0000000000000003', ['admin']), revokedAt: new Date() },
};

export function keyText({ id }: StoredKey): string {
  return `llk_${id}_${secretOf(id)}`;
}

function storedKey(id: string, scopes: string[]): StoredKey {
  const secretHash = createHash('sha256').update(secretOf(id)).digest('hex');
  return { id, secretHash, scopes, revokedAt: null };
}

export class Door {
  readonly address: string;
  readonly routes: readonly Route[];
  readonly #listening: Listening;
  readonly lines: Record<string, unknown>[];
  readonly failures: unknown[];
  readonly reached: unknown[];
  readonly #seen: Seen;

  private constructor(listening: Listening, routes: readonly Route[], seen: Seen) {
    this.#listening = listening;
    this.address = listening.address;
    this.routes = routes;
    this.lines = seen.lines;
    this.failures = seen.failures;
    this.reached = seen.reached;
    this.#seen = seen;
  }

  static async open(
    more: readonly Route[] = [],
    ready: () => Promise<Record<string, boolean>> = async () => await Promise.resolve({ database: true }),
    lane: Lane = 'express',
  ): Promise<Door> {
    const lines: Record<string, unknown>[] = [];
    const failures: unknown[] = [];
    const reached: unknown[] = [];
    const seen = { lines, failures, reached, onLine: (): void => {} };
    // Every route is hot here, so that the whole suite goes through the lane.
    const routes = [...fakeRoutes(reached), ...more].map((route) => ({ ...route, hot: true }));
    const deps: ServerDeps = {
      authenticator: new Authenticator({
        findKey: async (id) =>
          await Promise.resolve(Object.values(keys).find((key) => key.id === id) ?? null),
        apiKey: rootKey,
        tokenSecret,
      }),
      failed: (error) => void failures.push(error),
      checkAnswers: true,
      metrics: new Metrics(),
      version: '1.2.3',
      ready,
      log: (line) => {
        lines.push(line);
        seen.onLine();
      },
    };
    const app = createApp(routes, deps);
    const listener = lane === 'express' ? app : fastLane(routes, app, deps);
    return new Door(await listen(listener, '127.0.0.1', 0), routes, seen);
  }

  /** A call with the key of the environment, a JSON type and an idempotency key, unless `init` says otherwise. */
  async call(method: string, path: string, init: CallInit = {}): Promise<Answered> {
    const headers = new Headers({ authorization: `Bearer ${rootKey}` });
    if (init.body !== undefined) headers.set('content-type', 'application/json');
    if (method === 'POST') headers.set('idempotency-key', 'key-1');
    for (const [name, value] of Object.entries(init.headers ?? {})) {
      if (value === null) headers.delete(name);
      else headers.set(name, value);
    }
    const response = await fetch(`${this.address}${path}`, {
      method,
      headers,
      ...(init.body === undefined ? {} : { body: init.body }),
    });
    return { status: response.status, headers: response.headers, text: await response.text() };
  }

  /** Bytes as they are, for what no client library would send; the whole answer as text. */
  async raw(bytes: string | Buffer): Promise<string> {
    const { port } = new URL(this.address);
    return await new Promise((resolve, reject) => {
      const chunks: Buffer[] = [];
      const socket = connect(Number(port), '127.0.0.1', () => void socket.write(bytes));
      socket.on('data', (chunk: Buffer) => chunks.push(chunk));
      socket.on('error', reject).on('close', () => resolve(Buffer.concat(chunks).toString()));
    });
  }

  /** Resolves when the next request has been logged. */
  async nextLine(): Promise<void> {
    await new Promise<void>((resolve) => (this.#seen.onLine = resolve));
  }

  async close(deadlineMs = 1_000): Promise<void> {
    await this.#listening.close(deadlineMs);
  }
}

interface Seen {
  lines: Record<string, unknown>[];
  failures: unknown[];
  reached: unknown[];
  onLine: () => void;
}

export interface CallInit {
  body?: string | Uint8Array<ArrayBuffer>;
  headers?: Record<string, string | null>;
}

export interface Answered {
  status: number;
  headers: Headers;
  text: string;
}

interface ProblemBody {
  status: number;
  title: string;
  code: RefusalCode;
  detail?: string;
  requestId: string;
  errors?: { path: string; message: string }[];
  /** An extra member, of the refusals that carry it. */
  opensAt?: string;
}

/** Every refusal must look like this, and tell nothing of the inside. */
export function problemIn(answer: Answered): ProblemBody {
  assert.match(answer.headers.get('content-type') ?? '', /^application\/problem\+json/, answer.text);
  const problem = JSON.parse(answer.text) as ProblemBody;
  assert.equal(problem.status, answer.status);
  assert.include(refusalCodes, problem.code);
  assert.isNotEmpty(problem.title);
  assert.equal(problem.requestId, answer.headers.get('x-request-id'));
  assert.notMatch(answer.text, /\bat .*[.]ts|node_modules|\.ts:\d|SELECT|Error:/);
  return problem;
}

/** The paths that a 400 names. */
export function faultPaths(answer: Answered): string[] {
  const problem = problemIn(answer);
  assert.equal(problem.code, 'INVALID_REQUEST', answer.text);
  assert.equal(answer.status, 400);
  return (problem.errors ?? []).map(({ path }) => path);
}

function fakeRoutes(reached: unknown[]): Route[] {
  const note = ({ params, query, body, headers, principal, idempotency }: Noted): void =>
    void reached.push({ params, query, body, headers, clientId: principal.clientId, idempotency });
  return [
    defineRoute({
      name: 'grab',
      method: 'POST',
      path: '/v1/packets/{id}/grabs',
      summary: 'Grab',
      scopes: ['packets:grab'],
      participant: (user, { body }) => body.userId === user,
      params: z.strictObject({ id: packetId }),
      body: z.strictObject({ userId }),
      success: { 201: z.strictObject({ userId: z.string() }) },
      refusals: ['NOT_FOUND', 'SOLD_OUT'],
      handler: async (input) => {
        note(input);
        return await Promise.resolve({ status: 201, body: { userId: input.body.userId } });
      },
    }),
    defineRoute({
      name: 'createPacket',
      method: 'POST',
      path: '/v1/packets',
      summary: 'Create',
      scopes: ['packets:write'],
      body: z.strictObject({
        senderId: userId,
        totalAmount: amount,
        currency,
        opensAt: isoTime.optional(),
        rounds: z.array(z.strictObject({ totalAmount: amount })).optional(),
      }),
      headers: z.strictObject({ 'x-channel': z.string().max(8).optional() }),
      success: { 201: z.strictObject({ id: z.string() }) },
      refusals: ['INSUFFICIENT_FUNDS'],
      idempotencyKey: 'required',
      handler: async (input) => {
        note(input);
        return await Promise.resolve({
          status: 201,
          body: { id: '1' },
          headers: { location: '/v1/packets/1' },
          replayed: input.idempotency?.key === 'replay',
        });
      },
    }),
    defineRoute({
      name: 'closePacket',
      method: 'POST',
      path: '/v1/packets/{id}/close',
      summary: 'Close',
      scopes: ['packets:write'],
      params: z.strictObject({ id: packetId }),
      success: { 200: z.strictObject({ closed: z.boolean() }) },
      refusals: ['NOT_FOUND'],
      idempotencyKey: 'optional',
      handler: async (input) => {
        note(input);
        return await Promise.resolve({ status: 200, body: { closed: true } });
      },
    }),
    defineRoute({
      name: 'listTransfers',
      method: 'GET',
      path: '/v1/accounts/{owner}/transfers',
      summary: 'Statement',
      scopes: ['accounts:read'],
      participant: (user, { params: { owner } }) => owner === user,
      params: z.strictObject({ owner: userId }),
      query: z.strictObject({ cursor: cursor.optional(), limit, at: isoTime.optional() }),
      success: { 200: listOf(z.string()) },
      refusals: [],
      handler: async (input) => {
        note(input);
        return await Promise.resolve({
          status: 200,
          body: { items: [input.params.owner], nextCursor: null },
        });
      },
    }),
  ];
}

type Noted = Pick<RouteInput<undefined, undefined, undefined, undefined>, 'principal' | 'idempotency'> &
  Record<'params' | 'query' | 'body' | 'headers', unknown>;
