import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { assert } from 'chai';
import mysql from 'mysql2/promise';
import { privateServer } from '../../src/setup/local-server.ts';
import { privateSetUp } from '../../src/setup/private.ts';
import { findServer } from '../../src/setup/server-binary.ts';
import { provideDatabase } from '../../src/setup/provide.ts';
import { Database } from '../../src/database/database.ts';
import { reconcile } from '../../src/reconcile/reconcile.ts';

describe('private server', function () {
  this.timeout(120_000);
  let folder: string;
  const said: string[] = [];
  const say = (line: string): void => void said.push(line);

  before(async () => {
    folder = mkdtempSync(join(tmpdir(), 'luckyledger-setup-'));
    // Where there is no server yet, this installs one, as a first start does.
    await (await provideDatabase(folder, say)).stop();
  });
  after(() => rmSync(folder, { recursive: true, force: true }));

  const run = async (adminUrl: string, sql: string): Promise<unknown> => {
    const connection = await mysql.createConnection({ uri: adminUrl });
    try {
      return (await connection.query(sql))[0];
    } finally {
      await connection.end();
    }
  };
  const pidOf = (): number =>
    (JSON.parse(readFileSync(join(folder, 'server.json'), 'utf8')) as { pid: number }).pid;

  it('keeps its data over stop and start, and over a kill', async () => {
    const first = await provideDatabase(folder, say);
    await run(first.adminUrl, 'CREATE DATABASE kept');
    await run(first.adminUrl, 'CREATE TABLE kept.rows_kept (n INT)');
    await run(first.adminUrl, 'INSERT INTO kept.rows_kept VALUES (1)');
    await first.stop();
    const second = await provideDatabase(folder, say);
    assert.equal(second.adminUrl, first.adminUrl);
    await run(second.adminUrl, 'INSERT INTO kept.rows_kept VALUES (2)');
    process.kill(pidOf(), 'SIGKILL');
    const third = await provideDatabase(folder, say);
    assert.deepEqual(await run(third.adminUrl, 'SELECT n FROM kept.rows_kept ORDER BY n'), [
      { n: 1 },
      { n: 2 },
    ]);
    await third.stop();
  });

  it('a second start uses the first one’s server, and does not end it', async () => {
    const first = await provideDatabase(folder, say);
    const second = await provideDatabase(folder, say);
    assert.equal(second.adminUrl, first.adminUrl);
    await second.stop();
    await run(first.adminUrl, 'SELECT 1');
    await first.stop();
    assert.isTrue(
      await run(first.adminUrl, 'SELECT 1').then(
        () => false,
        () => true,
      ),
      'the first one ended it',
    );
  });

  it('a state that names another engine than the data is refused or served by that engine, never by the wrong one', async () => {
    const binary = findServer();
    if (binary === null) throw new Error('no server on this machine');
    const other = binary.engine === 'mysql' ? 'mariadb' : 'mysql';
    const answer = await privateServer(folder, { ...binary, engine: other }, say).then(
      async (provided) => {
        await provided.stop();
        return provided.description;
      },
      (error: Error) => error.message,
    );
    assert.include(answer, binary.engine);
  });

  it('the whole set-up: migrated, under the service’s role, with secrets that stay', async () => {
    const first = await privateSetUp(folder, 'll_setup', say);
    const database = await Database.open(first.databaseUrl, { poolSize: 2 });
    for (const { rule, findings } of await reconcile(database)) assert.isEmpty(findings, rule);
    await database.close();
    const [, password = ''] = /password=(.*)/.exec(readFileSync(join(folder, 'auditor.cnf'), 'utf8')) ?? [];
    const auditorUrl = new URL(first.databaseUrl);
    auditorUrl.username = 'll_setup_auditor';
    auditorUrl.password = password;
    await run(auditorUrl.href, 'SELECT * FROM transfers');
    assert.isTrue(
      await run(auditorUrl.href, 'DELETE FROM transfers').then(
        () => false,
        () => true,
      ),
      'an auditor only reads',
    );
    await first.stop();
    const again = await privateSetUp(folder, 'll_setup', say);
    assert.equal(again.apiKey, first.apiKey);
    assert.equal(again.tokenSecret, first.tokenSecret);
    await again.stop();
  });
});
