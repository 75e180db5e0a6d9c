import { spawn } from 'node:child_process';
import { once as onceEvent } from 'node:events';
import { assert } from 'chai';
import mysql from 'mysql2/promise';
import { Admission } from '../../src/database/admission.ts';
import { changeOf, Database } from '../../src/database/database.ts';
import { assertSupported, parseEngine, UnsupportedEngineError } from '../../src/database/engine.ts';
import { migrate } from '../../src/database/migrate.ts';
import { statement } from '../../src/database/statement.ts';
import type { Refusal } from '../../src/refusal.ts';
import { TestBooks } from '../support/service.ts';

describe('database door', () => {
  let books: TestBooks;
  before(async () => {
    books = await TestBooks.open();
  });
  after(async () => await books.close());

  it('case 13: engines without SKIP LOCKED or CHECK are refused with the reason', () => {
    for (const text of ['5.7.44', '5.5.5-10.5.23-MariaDB', '10.5.0-MariaDB-log', '5.6.51']) {
      assert.throws(
        () => assertSupported(parseEngine(text)),
        UnsupportedEngineError,
        /too old.*MySQL 8.0.*MariaDB 10.6/,
        text,
      );
    }
    for (const text of [
      '8.0.11',
      '8.4.3',
      '9.7.0-2',
      '10.6.0-MariaDB',
      '5.5.5-10.11.6-MariaDB-0+deb12u1',
      '11.8.3-MariaDB',
      '12.0.1-MariaDB',
    ])
      assertSupported(parseEngine(text));
    assert.throws(() => parseEngine('PostgreSQL 15'), UnsupportedEngineError);
  });

  it('every session is READ COMMITTED, UTC, strict, utf8mb4, and counts changed rows', async () => {
    const isolation = books.database.engine.name === 'MySQL' ? '@@transaction_isolation' : '@@tx_isolation';
    type Row = { isolation: string; zone: string; mode: string; charset: string; wait: number };
    const [row] = await books.database.rows(
      statement<Row>(
        't',
        `SELECT ${isolation} AS isolation, @@time_zone AS zone, @@sql_mode AS mode, @@character_set_client AS charset, @@innodb_lock_wait_timeout AS wait`,
      ),
    );
    assert.deepInclude(row, { isolation: 'READ-COMMITTED', zone: '+00:00', charset: 'utf8mb4', wait: 3 });
    assert.include(row?.mode, 'STRICT_ALL_TABLES');
    await books.fund('same', 1);
    const unchanged = await books.database.withTransaction(
      't',
      async (tx) =>
        await tx.change(statement('t', "UPDATE accounts SET balance = balance WHERE owner = 'same'")),
    );
    assert.equal(unchanged.affectedRows, 0);
  });

  it('what is written together with its COMMIT is all there, or nothing when a step affects other than it must', async () => {
    await books.query('CREATE TABLE pair (id INT PRIMARY KEY, n INT NOT NULL) ENGINE = InnoDB');
    await books.query('INSERT INTO pair VALUES (1, 0), (2, 0)');
    await books.query('GRANT SELECT, INSERT, UPDATE ON pair TO luckyledger_service');
    const stored = async () =>
      (await books.query<{ n: number }>('SELECT n FROM pair ORDER BY id')).map(({ n }) => n);
    const raise = statement('t', 'UPDATE pair SET n = n + 1 WHERE id >= ?');
    const insert = statement('t', 'INSERT INTO pair VALUES (?, 7)');
    const unit = async (from: number, expected: number, id: number): Promise<void> => {
      await books.database.withTransaction('t', async (tx) => {
        await tx.all(changeOf(raise, [1]));
        await tx.finish(changeOf(raise, [from], expected), changeOf(insert, [id], 1));
      });
    };
    await unit(2, 1, 3);
    assert.deepEqual(await stored(), [1, 2, 7]);
    // Too few, too many, and a fault after the checked step.
    for (const [from, expected, id] of [
      [3, 2, 4],
      [1, 1, 4],
      [1, 3, 3],
    ] as const) {
      const failed = await unit(from, expected, id).then(
        () => null,
        (error: unknown) => error,
      );
      assert.instanceOf(failed, Error, `${from} ${expected} ${id}`);
      assert.deepEqual(await stored(), [1, 2, 7]);
    }
    // The connection is fit for use after each of them.
    await unit(3, 1, 4);
    assert.deepEqual(await stored(), [2, 3, 9, 7]);
    await books.query('DROP TABLE pair');
  });

  it('a unit that did nothing commits nothing, and nothing follows a failed step of one round trip', async () => {
    assert.equal(await books.database.withTransaction('t', async () => await Promise.resolve(7)), 7);
    const both = books.database.withTransaction('t', async (tx) => {
      await tx.all(
        changeOf(statement('t', 'INSERT INTO no_such_table VALUES (1)')),
        changeOf(statement('t', "UPDATE accounts SET balance = balance + 1 WHERE kind = 'wallet'")),
      );
    });
    const failed = await both.then(
      () => null,
      (error: unknown) => error,
    );
    assert.instanceOf(failed, Error);
    await books.assertClean();
  });

  it('five instances migrate at once, also over a lock row that a crash left', async () => {
    const name = `${new URL(books.adminUrl).pathname.slice(1)}_m`;
    // It does not exist yet: the first migration makes it.
    const url = new URL(books.adminUrl);
    url.pathname = `/${name}`;
    const applied = await Promise.all(Array.from({ length: 5 }, async () => await migrate(url.href)));
    assert.equal(applied.filter((files) => files.length > 0).length, 1);
    await books.query(`UPDATE ${name}.schema_migrations_lock SET is_locked = 1`);
    assert.deepEqual(await migrate(url.href), []);
    await books.query(`DROP DATABASE ${name}`);
  });

  it('the gate in front of the pool refuses past its limits, in order, and never waits for ever', async () => {
    const gate = new Admission({ slots: 1, queueLength: 2, queueWaitMs: 50 });
    await gate.enter();
    const order: string[] = [];
    const first = gate.enter().then(() => order.push('first'));
    const second = gate.enter().catch((error: Refusal) => order.push(error.code));
    const third = await gate.enter().catch((error: Refusal) => error.code);
    assert.equal(third, 'BUSY', 'the queue was full');
    gate.leave();
    await first;
    await second;
    assert.deepEqual(order, ['first', 'BUSY']);
    gate.leave();
    assert.equal(gate.inside, 0);
  });

  it('a unit that takes too long is BUSY at its deadline, and its connection is not used again', async () => {
    const database = await books.another({ deadlineMs: 200, poolSize: 2 });
    const started = performance.now();
    const refusal = await database
      .withTransaction('slow', async (tx) => await tx.rows(statement('t', 'SELECT SLEEP(5)')))
      .catch((error: Refusal) => error);
    assert.equal((refusal as Refusal).code, 'BUSY');
    assert.isBelow(performance.now() - started, 2_000);
    const [row] = await database.rows(statement<{ one: number }>('t', 'SELECT 1 AS one'));
    assert.equal(row?.one, 1);
  });

  it('no database: a bounded wait, then BUSY', async () => {
    const nowhere = new URL(books.url);
    nowhere.port = '1';
    const failed = await Database.open(nowhere.href).catch((error: { code?: string }) => error);
    assert.equal((failed as { code?: string }).code, 'ECONNREFUSED');
  });

  it('roles: the service cannot touch what is append-only; the auditor only reads, and sees no hash and no seed', async () => {
    await books.fund('sender', 100);
    const id = await books.packet({ totalAmount: 100, shareCount: 2 });
    await books.desk().grab(id, 'someone');
    const service = await mysql.createConnection({ uri: books.url });
    const auditor = await mysql.createConnection({ uri: await books.userWith('luckyledger_auditor') });
    const denied = async (connection: mysql.Connection, sql: string): Promise<void> => {
      const errno = await connection.query(sql).then(
        () => 0,
        (error: { errno?: number }) => error.errno ?? -1,
      );
      assert.include([1142, 1143, 1044, 1227], errno, sql);
    };
    for (const table of ['transfers', 'grabs', 'packet_audience']) {
      await denied(service, `UPDATE ${table} SET ${table === 'packet_audience' ? 'user_id' : 'amount'} = 1`);
      await denied(service, `DELETE FROM ${table}`);
      await denied(service, `TRUNCATE TABLE ${table}`);
    }
    for (const sql of [
      'UPDATE packets SET total_amount = 1',
      'UPDATE packets SET seed = 1',
      'UPDATE packet_shares SET amount = 1',
      'DELETE FROM packets',
      'DELETE FROM packet_shares',
      'DELETE FROM accounts',
      'UPDATE api_keys SET scopes = 1',
      'DROP TABLE grabs',
      'ALTER TABLE grabs DROP PRIMARY KEY',
    ])
      await denied(service, sql);
    for (const table of [
      'accounts',
      'transfers',
      'packets',
      'packet_shares',
      'grabs',
      'idempotency_keys',
      'outbox_messages',
      'api_keys',
    ]) {
      await denied(auditor, `DELETE FROM ${table}`);
      await denied(auditor, `INSERT INTO ${table} () VALUES ()`);
    }
    await denied(auditor, 'SELECT secret_hash FROM api_keys');
    await denied(auditor, 'SELECT seed FROM packets');
    await auditor.query('SELECT id, total_amount, commitment FROM packets');
    await service.end();
    await auditor.end();
    await books.assertClean();
  });

  it('the auditor can run every reconciliation file', async () => {
    const auditor = await Database.open(await books.userWith('luckyledger_auditor'), { poolSize: 1 });
    const { reconcile } = await import('../../src/reconcile/reconcile.ts');
    for (const { rule, findings } of await reconcile(auditor)) assert.isEmpty(findings, rule);
    await auditor.close();
  });

  it('case 15: a process in New York with its clock five minutes off: the same instants, and the database’s clock decides', async () => {
    await books.fund('sender', 100);
    const script = `
      const real = Date.now; const shift = 5 * 60_000;
      const { Database } = await import('./src/database/database.ts');
      const { createPacket } = await import('./src/packet/create.ts');
      const { keyOnly, newPacket } = await import('./test/support/service.ts');
      const RealDate = Date;
      globalThis.Date = class extends RealDate { constructor(...a) { super(...(a.length ? a : [real() + shift])); } static now() { return real() + shift; } };
      const database = await Database.open(${JSON.stringify(books.url)});
      const input = newPacket({ totalAmount: 100, shareCount: 2, expiresInSeconds: 3600 });
      const { body } = await createPacket(database, 'ny', keyOnly('ny', 'one'), input, (p) => ({ status: 201, body: { id: p.id, opensAt: p.opens_at.toISOString(), expiresAt: p.expires_at.toISOString() } }));
      console.log(JSON.stringify(body)); await database.close(); process.exit(0);`;
    await books.query("SET GLOBAL time_zone = '+08:00'");
    try {
      const child = spawn(process.execPath, ['--import', 'tsx', '--input-type=module', '-e', script], {
        env: { ...process.env, TZ: 'America/New_York' },
        stdio: ['ignore', 'pipe', 'inherit'],
      });
      let text = '';
      child.stdout.on('data', (data: Buffer) => {
        text += data.toString();
      });
      await onceEvent(child, 'close');
      const made = JSON.parse(text) as { id: string; opensAt: string; expiresAt: string };
      const [row] = await books.query<{ opens: number; apart: number }>(
        "SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', opens_at) DIV 1000 AS opens, TIMESTAMPDIFF(SECOND, opens_at, UTC_TIMESTAMP(3)) AS apart FROM packets WHERE id = ?",
        [made.id],
      );
      assert.equal(new Date(made.opensAt).getTime(), row?.opens);
      assert.isBelow(Math.abs(row?.apart ?? 999), 30, 'opened by the database’s clock, not by the process’s');
      assert.equal(new Date(made.expiresAt).getTime() - new Date(made.opensAt).getTime(), 3_600_000);
      assert.equal((await books.desk().grab(made.id, 'ny')).outcome, 'granted');
    } finally {
      await books.query("SET GLOBAL time_zone = 'SYSTEM'");
    }
    await books.assertClean();
  });
});
