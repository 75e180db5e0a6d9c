import { z } from 'zod';
import { groupBy } from '../group-by.ts';
import type { RefusalCode } from '../refusal.ts';
import { problems } from './problem.ts';
import { scopes, type Route } from './route.ts';

/** What every route may refuse with. */
const always: readonly RefusalCode[] = ['INVALID_REQUEST', 'UNAUTHORIZED', 'FORBIDDEN', 'INTERNAL', 'BUSY'];

type Json = Record<string, unknown>;

const jsonSchema = (schema: z.ZodType, io: 'input' | 'output'): Json => {
  const { $schema: _, ...rest } = z.toJSONSchema(schema, { io, unrepresentable: 'any' }) as Json;
  return rest;
};

/** A parameter travels as text; its schema may say, as `inputSchema`, what that text spells. */
function parameterSchema(property: unknown): unknown {
  if (typeof property !== 'object' || property === null || !('inputSchema' in property)) return property;
  const { inputSchema, ...rest } = property;
  const description = 'description' in rest ? { description: rest.description } : {};
  return { ...description, ...(inputSchema as Json) };
}

/** The OpenAPI 3.1 document, from the schemas that validate. */
export function openApiDocument(routes: readonly Route[], version: string): Json {
  const paths: Record<string, Json> = {};
  for (const route of routes) {
    const path = (paths[route.path] ??= {});
    path[route.method.toLowerCase()] = operation(route);
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'Luckyledger',
      version,
      description:
        'Shares that run out, handed out exactly. Amounts are integers in minor units; times are RFC 3339 UTC; ' +
        'errors are problem documents (RFC 9457) with a stable `code`.',
      license: { name: 'MIT', identifier: 'MIT' },
    },
    servers: [{ url: '/' }],
    security: [{ bearer: [] }],
    paths,
    components: {
      securitySchemes: {
        bearer: {
          type: 'http',
          scheme: 'bearer',
          description: `An API key with scopes (${scopes.join(', ')}), or a participant token, which acts for its own user only.`,
        },
      },
      schemas: { Problem: problemSchema },
    },
  };
}

function operation(route: Route): Json {
  const bodyErrors: RefusalCode[] =
    route.body === undefined ? [] : ['PAYLOAD_TOO_LARGE', 'UNSUPPORTED_MEDIA_TYPE'];
  const keyErrors: RefusalCode[] =
    route.idempotencyKey === undefined ? [] : ['IDEMPOTENCY_KEY_IN_FLIGHT', 'IDEMPOTENCY_KEY_REUSED'];
  const byStatus = groupBy(
    new Set([...route.refusals, ...always, ...bodyErrors, ...keyErrors]),
    (code) => problems[code].status,
  );
  const refusals = [...byStatus].map(([status, codes]) => [
    String(status),
    {
      description: codes.map((code) => `\`${code}\`: ${problems[code].title}`).join('; '),
      content: { 'application/problem+json': { schema: { $ref: '#/components/schemas/Problem' } } },
    },
  ]);
  const answers = Object.entries(route.success).map(([status, schema]) => [
    status,
    {
      description: status === '201' ? 'Created' : 'Done',
      content: { 'application/json': { schema: jsonSchema(schema, 'output') } },
    },
  ]);
  return {
    operationId: route.name,
    summary: route.summary,
    tags: [route.path.split('/')[2] ?? 'other'],
    description: `Scope: ${route.scopes.join(' or ')}.${route.participant === null ? '' : ' Participant tokens may call it for their own user.'}`,
    parameters: parameters(route),
    ...(route.body === undefined
      ? {}
      : {
          requestBody: {
            required: true,
            content: { 'application/json': { schema: jsonSchema(route.body, 'input') } },
          },
        }),
    responses: Object.fromEntries([...answers, ...refusals]),
  };
}

function parameters(route: Route): Json[] {
  const of = (schema: z.ZodType | undefined, place: 'path' | 'query' | 'header'): Json[] => {
    if (schema === undefined) return [];
    const { properties = {}, required = [] } = jsonSchema(schema, 'input') as {
      properties?: Json;
      required?: string[];
    };
    return Object.entries(properties).map(([name, property]) => ({
      name,
      in: place,
      required: place === 'path' || required.includes(name),
      schema: parameterSchema(property),
    }));
  };
  const key: Json[] =
    route.idempotencyKey === undefined
      ? []
      : [
          {
            name: 'Idempotency-Key',
            in: 'header',
            required: route.idempotencyKey === 'required',
            description:
              'Repeats with the same key and request get the first answer, with Idempotent-Replayed: true.',
            schema: { type: 'string', minLength: 1, maxLength: 255, pattern: '^[!-~]+$' },
          },
        ];
  return [...of(route.params, 'path'), ...of(route.query, 'query'), ...of(route.headers, 'header'), ...key];
}

const problemSchema: Json = {
  type: 'object',
  required: ['type', 'title', 'status', 'code', 'requestId'],
  properties: {
    type: { type: 'string' },
    title: { type: 'string' },
    status: { type: 'integer' },
    code: { type: 'string', enum: Object.keys(problems) },
    detail: { type: 'string' },
    requestId: { type: 'string' },
    errors: {
      type: 'array',
      items: {
        type: 'object',
        required: ['path', 'message'],
        properties: { path: { type: 'string' }, message: { type: 'string' } },
      },
    },
  },
};
