import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { MariaDbContainer } from '@testcontainers/mariadb';
import { MySqlContainer } from '@testcontainers/mysql';
import mysql from 'mysql2/promise';
import { parseEngine } from '../../src/database/engine.ts';
import { discardPrivateServer } from '../../src/setup/local-server.ts';
import { provideDatabase } from '../../src/setup/provide.ts';

/**
 * One real server for the whole run: TEST_DATABASE_URL (an administrator's) if set, else a container, else, when no
 * container can be had for any reason, a private server in a temporary folder. TEST_PROVIDER=url|container|local
 * forces one, and then its failure is an error; TEST_ENGINE=mysql|mariadb picks the container's image. Servers keep
 * their durable defaults: the tests say something about durability.
 */
interface Engine {
  url: string;
  provider: string;
  stop: () => Promise<void>;
}

const password = 'test-root';
const folderPrefix = 'luckyledger-test-';

let engine: Engine | null = null;
/** What a run that is cut short has to do; never waits. */
let discard: () => void = () => {};

process.on('exit', () => discard());
for (const signal of ['SIGTERM', 'SIGHUP'] as const) process.on(signal, () => process.exit(1));

/** The administrator's URL of the server under test, without a database. */
export function adminUrl(): string {
  if (engine === null) throw new Error('no engine: run the tests with npm test');
  return engine.url;
}

export const mochaHooks = {
  async beforeAll(this: Mocha.Context): Promise<void> {
    this.timeout(900_000);
    engine = await provide();
    const connection = await mysql.createConnection({ uri: engine.url });
    const [rows] = await connection.query<mysql.RowDataPacket[]>('SELECT VERSION() AS version');
    await connection.end();
    const { name, version } = parseEngine(String(rows[0]?.['version']));
    process.stdout.write(`\nEngine: ${name} ${version} (${engine.provider})\n`);
  },
  async afterAll(this: Mocha.Context): Promise<void> {
    this.timeout(120_000);
    await engine?.stop();
    discard();
    discard = () => {};
  },
};

async function provide(): Promise<Engine> {
  const url = process.env['TEST_DATABASE_URL'] ?? '';
  const forced = process.env['TEST_PROVIDER'] ?? '';
  switch (forced === '' && url !== '' ? 'url' : forced) {
    case 'url':
      if (url === '') throw new Error('TEST_PROVIDER=url needs TEST_DATABASE_URL');
      return { url, provider: 'given by TEST_DATABASE_URL', stop: async () => {} };
    case 'container':
      return await container();
    case 'local':
      return await local();
    case '':
      try {
        return await container();
      } catch (error) {
        discard();
        const reason = error instanceof Error ? error.message.split('\n')[0] : String(error);
        process.stdout.write(`No container (${reason}); using a private server\n`);
        return await local();
      }
    default:
      throw new Error(`TEST_PROVIDER must be url, container or local, not ${forced}`);
  }
}

async function container(): Promise<Engine> {
  const mariadb = process.env['TEST_ENGINE'] === 'mariadb';
  const started = mariadb
    ? await new MariaDbContainer('mariadb:11.8').withRootPassword(password).start()
    : await new MySqlContainer('mysql:9.7').withRootPassword(password).start();
  discard = () =>
    void spawnSync('docker', ['rm', '--force', '--volumes', started.getId()], { timeout: 20_000 });
  const host = started.getHost() === 'localhost' ? '127.0.0.1' : started.getHost();
  return {
    url: `mysql://root:${password}@${host}:${started.getPort()}`,
    provider: `container ${mariadb ? 'mariadb:11.8' : 'mysql:9.7'}, by testcontainers`,
    stop: async () => {
      await started.stop();
      discard = () => {};
    },
  };
}

async function local(): Promise<Engine> {
  removeLeftOver();
  const folder = mkdtempSync(join(tmpdir(), `${folderPrefix}${process.pid}-`));
  discard = () => discardPrivateServer(folder);
  const say = (line: string): void => void process.stdout.write(`${line}\n`);
  const { adminUrl: url, stop } = await provideDatabase(folder, say, { container: false });
  return { url, provider: 'private local server', stop };
}

/** Servers and folders of earlier runs that were killed; the name holds the run's process. */
function removeLeftOver(): void {
  for (const name of readdirSync(tmpdir())) {
    const pid = name.startsWith(folderPrefix) ? Number(name.slice(folderPrefix.length).split('-')[0]) : NaN;
    if (!Number.isInteger(pid)) continue;
    try {
      process.kill(pid, 0);
    } catch {
      discardPrivateServer(join(tmpdir(), name));
    }
  }
}
