import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { MariaDbContainer } from '@testcontainers/mariadb';
import { MySqlContainer } from '@testcontainers/mysql';
import mysql from 'mysql2/promise';
import { provideDatabase } from '../../src/setup/provide.ts';

/**
 * One real server for the whole run: TEST_DATABASE_URL (an administrator's) if set, else a container, else, when no
 * container can be had for any reason, a private server in a temporary folder. TEST_PROVIDER=url|container|local
 * forces one, and then its failure is an error; TEST_ENGINE=mysql|mariadb picks the container's image.
 */
interface Engine {
  url: string;
  provider: string;
  stop: () => Promise<void>;
}

let engine: Engine | null = null;

/** The administrator's URL of the server under test, without a database. */
export function adminUrl(): string {
  if (engine === null) throw new Error('no engine: run the tests with npm test');
  return engine.url;
}

export const mochaHooks = {
  async beforeAll(this: Mocha.Context): Promise<void> {
    this.timeout(300_000);
    engine = await provide();
    const connection = await mysql.createConnection({ uri: engine.url });
    const [rows] = await connection.query<mysql.RowDataPacket[]>('SELECT VERSION() AS version');
    await connection.end();
    process.stdout.write(`\nEngine: ${String(rows[0]?.['version'])} (${engine.provider})\n`);
  },
  async afterAll(this: Mocha.Context): Promise<void> {
    this.timeout(60_000);
    await engine?.stop();
  },
};

async function provide(): Promise<Engine> {
  const url = process.env['TEST_DATABASE_URL'] ?? '';
  const forced = process.env['TEST_PROVIDER'] ?? (url === '' ? '' : 'url');
  switch (forced) {
    case 'url':
      return { url, provider: 'TEST_DATABASE_URL', stop: async () => {} };
    case 'container':
      return await container();
    case 'local':
      return await local();
    case '':
      try {
        return await container();
      } catch (error) {
        const reason = error instanceof Error ? error.message.split('\n')[0] : String(error);
        process.stdout.write(`No container (${reason}); using a private server\n`);
        return await local();
      }
    default:
      throw new Error(`TEST_PROVIDER must be url, container or local, not ${forced}`);
  }
}

async function container(): Promise<Engine> {
  const password = 'test-root';
  if (process.env['TEST_ENGINE'] === 'mariadb') {
    const started = await new MariaDbContainer('mariadb:11.8').withRootPassword(password).start();
    return engineOf(
      started.getHost(),
      started.getPort(),
      password,
      'testcontainers, mariadb:11.8',
      async () => {
        await started.stop();
      },
    );
  }
  const started = await new MySqlContainer('mysql:9.7').withRootPassword(password).start();
  return engineOf(started.getHost(), started.getPort(), password, 'testcontainers, mysql:9.7', async () => {
    await started.stop();
  });
}

function engineOf(
  host: string,
  port: number,
  password: string,
  provider: string,
  stop: () => Promise<void>,
): Engine {
  return {
    url: `mysql://root:${password}@${host === 'localhost' ? '127.0.0.1' : host}:${port}`,
    provider,
    stop,
  };
}

async function local(): Promise<Engine> {
  const folder = mkdtempSync(join(tmpdir(), 'luckyledger-test-'));
  const provided = await provideDatabase(folder, (line) => process.stdout.write(`${line}\n`));
  return {
    url: provided.adminUrl,
    provider: 'private server',
    stop: async () => {
      await provided.stop();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
