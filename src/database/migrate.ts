import { readFile, readdir } from 'node:fs/promises';
import type { Knex } from 'knex';
import mysql, { type Pool, type PoolOptions } from 'mysql2';
import type { PoolConnection, RowDataPacket } from 'mysql2/promise';
import { assertSupported, parseEngine } from './engine.ts';
import { errnoOf } from './errors.ts';
import { defaultLimits, knexOn, poolOptions } from './database.ts';

/** The folder `db/` is beside both `src/` and `dist/`, in the repository and in the package. */
export const dbFolder = new URL('../../db/', import.meta.url);

const lockName = (database: string): string => `luckyledger.migrate.${database}`.slice(0, 64);

const unknownDatabase = 1049;

/** Seconds to wait for another instance's migration. */
const lockWaitSeconds = 120;

/**
 * Splits a file into statements: `;` at the end of a line ends one. `--` comment lines are dropped. Our files keep
 * to that form, so no SQL parser is needed.
 */
export function sqlStatements(text: string): string[] {
  return text
    .split('\n')
    .filter((line) => !line.trimStart().startsWith('--'))
    .join('\n')
    .split(/;\s*(?:\n|$)/)
    .map((part) => part.trim())
    .filter((part) => part !== '');
}

const source: Knex.MigrationSource<string> = {
  getMigrations: async () =>
    (await readdir(new URL('migrations/', dbFolder))).filter((name) => name.endsWith('.sql')).sort(),
  getMigrationName: (name) => name,
  getMigration: async (name) => {
    const statements = sqlStatements(await readFile(new URL(`migrations/${name}`, dbFolder), 'utf8'));
    return {
      up: async (knex: Knex) => {
        for (const sql of statements) await knex.raw(sql.replaceAll('?', '\\?'));
      },
      down: async () => {
        await Promise.reject(new Error('migrations only go forward'));
      },
    };
  },
};

/**
 * Brings the schema up to date; returns the names of the files that were applied. Several instances may call it at
 * once: GET_LOCK lets one work while the others wait. knex's own lock is a row that stays after a crash, so
 * whoever holds the real lock frees it first.
 */
export async function migrate(url: string): Promise<string[]> {
  const options = poolOptions(url, { ...defaultLimits, poolSize: 2, connectTimeoutMs: 10_000 });
  const pool = mysql.createPool(options);
  const knex = knexOn(pool);
  let guard: PoolConnection | null = null;
  try {
    guard = await connectAndMake(pool, options);
    const [[row]] = await guard.query<(RowDataPacket & { version: string })[]>('SELECT VERSION() AS version');
    assertSupported(parseEngine(row?.version ?? ''));
    const name = lockName(options.database ?? '');
    const [[lock]] = await guard.query<(RowDataPacket & { held: number | null })[]>(
      'SELECT GET_LOCK(?, ?) AS held',
      [name, lockWaitSeconds],
    );
    if (lock?.held !== 1) throw new Error(`another instance has been migrating for ${lockWaitSeconds} s`);
    const config: Knex.MigratorConfig = {
      migrationSource: source,
      tableName: 'schema_migrations',
      disableTransactions: true,
    };
    await knex.migrate.forceFreeMigrationsLock(config);
    const [, applied] = (await knex.migrate.latest(config)) as [number, string[]];
    await guard.query('SELECT RELEASE_LOCK(?)', [name]);
    return applied;
  } finally {
    guard?.destroy();
    await knex.destroy();
    await new Promise<void>((resolve) => {
      pool.end(() => resolve());
    });
  }
}

/** The first connection; if the server has no database of this name, it is made first, if this user may. */
async function connectAndMake(pool: Pool, options: PoolOptions): Promise<PoolConnection> {
  try {
    return await pool.promise().getConnection();
  } catch (error) {
    if (errnoOf(error) !== unknownDatabase) throw error;
    const { database = '', ...server } = options;
    const unnamed = mysql.createPool(server).promise();
    try {
      await unnamed.query('CREATE DATABASE IF NOT EXISTS ?? CHARACTER SET utf8mb4', [database]);
    } finally {
      await unnamed.end();
    }
    return await pool.promise().getConnection();
  }
}
