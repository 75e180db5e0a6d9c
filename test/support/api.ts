import { randomBytes } from 'node:crypto';
import type { Service, ServiceOptions } from '../../src/service.ts';
import { startService } from '../../src/service.ts';
import { createLog, type Logger } from '../../src/observe/log.ts';
import type { TestBooks } from './service.ts';

export const rootKey = 'test-root-key';

export interface ApiAnswer {
  status: number;
  headers: Headers;
  text: string;
  body: Record<string, unknown>;
}

/** A whole service on a free port, with its answers checked against their schemas. */
export class TestApi {
  readonly service: Service;
  readonly lines: Record<string, unknown>[];

  private constructor(service: Service, lines: Record<string, unknown>[]) {
    this.service = service;
    this.lines = lines;
  }

  static async start(books: TestBooks, options: Partial<ServiceOptions> = {}): Promise<TestApi> {
    const lines: Record<string, unknown>[] = [];
    const service = await startService({
      databaseUrl: books.url,
      tokenSecret: 'a secret for tests only',
      config: { host: '127.0.0.1', port: 0, apiKey: rootKey, poolSize: 8 },
      log: recorder(lines),
      checkAnswers: true,
      ...options,
    });
    return new TestApi(service, lines);
  }

  /** One call; a string or bytes as body go out as they are. */
  async call(
    method: string,
    path: string,
    body?: unknown,
    headers: Record<string, string> = {},
  ): Promise<ApiAnswer> {
    const raw = typeof body === 'string' || body instanceof Uint8Array;
    const response = await fetch(`${this.service.address}${path}`, {
      method,
      headers: {
        authorization: `Bearer ${rootKey}`,
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        'idempotency-key': randomBytes(12).toString('hex'),
        ...headers,
      },
      ...(body === undefined
        ? {}
        : { body: raw ? (body as string | Uint8Array<ArrayBuffer>) : JSON.stringify(body) }),
    });
    const text = await response.text();
    const isJson = (response.headers.get('content-type') ?? '').includes('json');
    return {
      status: response.status,
      headers: response.headers,
      text,
      body: (isJson ? JSON.parse(text) : {}) as ApiAnswer['body'],
    };
  }

  async close(): Promise<void> {
    await this.service.close(3_000);
  }
}

/** A logger that keeps its lines. */
function recorder(lines: Record<string, unknown>[]): Logger {
  const log = createLog('info');
  log.clear();
  log.silent = false;
  const write =
    (level: string) =>
    (message: unknown, more: object = {}) => {
      lines.push(
        typeof message === 'string' ? { level, message, ...more } : { level, ...(message as object) },
      );
      return log;
    };
  return Object.assign(log, { info: write('info'), warn: write('warn'), error: write('error') });
}
