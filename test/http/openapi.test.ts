import { assert } from 'chai';
import { openApiDocument } from '../../src/http/openapi.ts';
import { problems } from '../../src/http/problem.ts';
import { Door, problemIn } from './support.ts';

interface Parameter {
  name: string;
  in: string;
  required: boolean;
  schema: Record<string, unknown>;
}
interface Operation {
  operationId: string;
  description: string;
  parameters: Parameter[];
  requestBody?: { required: boolean; content: Record<string, { schema: Record<string, unknown> }> };
  responses: Record<
    string,
    { description: string; content: Record<string, { schema: Record<string, unknown> }> }
  >;
}
interface Document {
  openapi: string;
  paths: Record<string, Record<string, Operation>>;
  components: { schemas: Record<string, unknown>; securitySchemes: Record<string, unknown> };
}

describe('the OpenAPI document', () => {
  let door: Door;
  let document: Document;
  before(async () => {
    door = await Door.open();
    const answer = await fetch(`${door.address}/openapi.json`);
    assert.match(answer.headers.get('content-type') ?? '', /^application\/json/);
    document = (await answer.json()) as Document;
  });
  after(async () => await door.close());

  it('is of 3.1, and the one that is made without a server', () => {
    assert.equal(document.openapi, '3.1.0');
    assert.deepEqual(document, JSON.parse(JSON.stringify(openApiDocument(door.routes, '1.2.3'))) as Document);
  });

  it('describes every route with its parameters, body, answers and refusals', () => {
    for (const route of door.routes) {
      const operation = document.paths[route.path]?.[route.method.toLowerCase()];
      assert.isDefined(operation, route.name);
      if (operation === undefined) continue;
      assert.equal(operation.operationId, route.name);
      for (const scope of route.scopes) assert.include(operation.description, scope);
      const inPath = operation.parameters.filter((parameter) => parameter.in === 'path');
      assert.deepEqual(
        inPath.map(({ name, required }) => ({ name, required })),
        [...route.path.matchAll(/\{(\w+)\}/g)].map(([, name]) => ({ name: name ?? '', required: true })),
      );
      assert.equal(operation.requestBody?.required, route.body === undefined ? undefined : true);
      for (const status of Object.keys(route.success)) assert.property(operation.responses, status);
      for (const code of [
        ...route.refusals,
        'INVALID_REQUEST',
        'UNAUTHORIZED',
        'FORBIDDEN',
        'INTERNAL',
      ] as const)
        assert.include(operation.responses[problems[code].status]?.description, code);
      const key = operation.parameters.find(({ name }) => name === 'Idempotency-Key');
      assert.equal(key?.required, route.idempotencyKey && route.idempotencyKey === 'required');
    }
    const ids = Object.values(document.paths).flatMap((path) =>
      Object.values(path).map((o) => o.operationId),
    );
    assert.lengthOf(new Set(ids), door.routes.length);
  });

  it('refers to nothing that is not there, and shows what callers send and get', () => {
    const references = [...JSON.stringify(document).matchAll(/"\$ref":"#\/([^"]+)"/g)].map(
      ([, path]) => path ?? '',
    );
    assert.isNotEmpty(references);
    for (const reference of references) {
      const found = reference
        .split('/')
        .reduce<unknown>((at, step) => (at as Record<string, unknown>)[step], document);
      assert.isDefined(found, reference);
    }
    const create = document.paths['/v1/packets']?.['post'];
    const schema = create?.requestBody?.content['application/json']?.schema as {
      required: string[];
      properties: Record<string, unknown>;
      additionalProperties: boolean;
    };
    assert.sameMembers(schema.required, ['senderId', 'totalAmount']);
    assert.isFalse(schema.additionalProperties);
    assert.deepInclude(schema.properties['totalAmount'], {
      type: 'integer',
      minimum: 1,
      maximum: Number.MAX_SAFE_INTEGER,
    });
    assert.deepInclude(schema.properties['opensAt'], { type: 'string', format: 'date-time' });
    const limit = document.paths['/v1/accounts/{owner}/transfers']?.['get']?.parameters.find(
      ({ name }) => name === 'limit',
    );
    assert.deepInclude(limit?.schema, { type: 'integer', minimum: 1, maximum: 200, default: 50 });
    assert.isFalse(limit?.required);
  });
});

describe('the pages without a key', () => {
  let door: Door;
  let checks: () => Promise<Record<string, boolean>>;
  before(async () => void (door = await Door.open([], async () => await checks())));
  after(async () => await door.close());

  it('serves the API page from its own disk under a policy without inline scripts', async () => {
    const page = await fetch(`${door.address}/docs`);
    const policy = page.headers.get('content-security-policy') ?? '';
    assert.include(policy, "default-src 'none'");
    assert.notInclude(policy, 'unsafe');
    const html = await page.text();
    const links = [...html.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, link]) => link ?? '');
    assert.lengthOf(links, 4);
    for (const link of links) {
      assert.match(link, /^\/docs\//);
      const asset = await fetch(`${door.address}${link}`);
      assert.equal(asset.status, 200, link);
      assert.isNotEmpty(await asset.text());
    }
    assert.notMatch(html, /<script>|\son\w+=|<style/);
  });

  it('blames odd conditions on the caller, not on itself', async () => {
    for (const headers of [{ range: 'bytes=99999999-' }, { 'if-match': '"x"' }]) {
      const answer = await door.call('GET', '/docs/swagger-ui.css', { headers });
      assert.equal(problemIn(answer).code, 'INVALID_REQUEST');
    }
    assert.isEmpty(door.failures);
  });

  it('tells that it lives, and whether it is ready', async () => {
    assert.equal((await fetch(`${door.address}/healthz`)).status, 200);
    checks = async () => await Promise.resolve({ database: true, schema: true });
    assert.equal((await fetch(`${door.address}/readyz`)).status, 200);
    checks = async () => await Promise.resolve({ database: false, schema: true });
    const unready = await fetch(`${door.address}/readyz`);
    assert.equal(unready.status, 503);
    assert.deepInclude(await unready.json(), { checks: { database: false, schema: true } });
    checks = async () => await Promise.reject(new Error('secret-value'));
    const broken = await fetch(`${door.address}/readyz`);
    assert.equal(broken.status, 503);
    assert.notInclude(await broken.text(), 'secret-value');
  });

  it('counts requests by route and status', async () => {
    await door.call('GET', '/v1/accounts/a/transfers');
    await door.call('GET', '/v1/accounts/a/transfers?limit=0');
    await door.call('GET', '/nowhere');
    const text = await (await fetch(`${door.address}/metrics`)).text();
    for (const [route, status] of [
      ['listTransfers', 200],
      ['listTransfers', 400],
      ['none', 404],
    ] as const)
      assert.include(text, `luckyledger_http_requests_total{route="${route}",status="${status}"} 1\n`);
    assert.include(text, 'luckyledger_http_request_seconds_count{route="listTransfers"} 2\n');
    assert.include(text, 'process_cpu_seconds_total');
  });
});
