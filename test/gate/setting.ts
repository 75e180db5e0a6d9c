import { rootKey, TestApi } from '../support/api.ts';
import { TestRedis } from '../support/redis.ts';
import { TestBooks } from '../support/service.ts';
import { ServedProcess } from './served.ts';

interface ServeOptions {
  /** Null: no gate. */
  limit: number | null;
  windowMs?: number;
  timeoutMs?: number;
}

/**
 * A Redis, books and services for the tests of one `describe`, which calls this in its body: everything is set up
 * before its tests, and after each of them the services are closed and the books checked.
 */
export class Setting {
  #redis: TestRedis | null = null;
  #books: TestBooks | null = null;
  readonly #apis: TestApi[] = [];
  readonly #processes: ServedProcess[] = [];

  constructor() {
    const start = async (): Promise<void> => await this.#start();
    before(async function () {
      // Redis may have to be installed first.
      this.timeout(600_000);
      await start();
    });
    beforeEach(async () => await this.redis.client.flushall());
    afterEach(async () => await this.#closeServices());
    afterEach(async () => await this.books.assertClean());
    after(async () => {
      await this.#redis?.stop();
      await this.#books?.close();
    });
  }

  get redis(): TestRedis {
    if (this.#redis === null) throw new Error('no Redis before the tests begin');
    return this.#redis;
  }

  get books(): TestBooks {
    if (this.#books === null) throw new Error('no books before the tests begin');
    return this.#books;
  }

  /**
   * The service in this process. It waits longer for Redis than services do, so that exact counts are exact on a busy
   * machine too.
   */
  async serve({ limit, windowMs = 60_000, timeoutMs = 300 }: ServeOptions): Promise<TestApi> {
    const gate = limit === null ? null : { url: this.redis.url, limit, windowMs, timeoutMs };
    const api = await TestApi.start(this.books, {
      config: { host: '127.0.0.1', port: 0, apiKey: rootKey, poolSize: 8, gate },
    });
    this.#apis.push(api);
    return api;
  }

  /** The service in a process of its own, as users run it. */
  async serveElsewhere(limit: number, windowMs: number): Promise<ServedProcess> {
    const served = await ServedProcess.start(this.books, {
      REDIS_URL: this.redis.url,
      GATE_LIMIT: String(limit),
      GATE_WINDOW_MS: String(windowMs),
    });
    this.#processes.push(served);
    return served;
  }

  async grantedCount(packetId: string): Promise<number> {
    const [row] = await this.books.query<{ n: number }>(
      'SELECT COUNT(*) AS n FROM grabs WHERE packet_id = ?',
      [packetId],
    );
    return row?.n ?? 0;
  }

  async #start(): Promise<void> {
    this.#redis = await TestRedis.start();
    this.#books = await TestBooks.open();
    await this.#books.fund('sender', 1_000_000);
  }

  async #closeServices(): Promise<void> {
    await Promise.all(this.#apis.splice(0).map(async (api) => await api.close()));
    await Promise.all(this.#processes.splice(0).map(async (served) => await served.end('SIGKILL')));
  }
}

/** The key of a packet's window. */
export function keyOf(packetId: string): string {
  return `gate:{${packetId}}`;
}
