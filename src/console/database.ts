import { existsSync } from 'node:fs';
import { readConfig, type Config } from '../config.ts';
import { Database } from '../database/database.ts';
import { migrate } from '../database/migrate.ts';
import { privateSetUp, type PrivateSetUp } from '../setup/private.ts';
import { say } from './output.ts';

export const privateFolder = '.luckyledger';
export const privateDatabase = 'luckyledger';

/** What is given, or the private set-up. */
export async function setUp(config: Config): Promise<PrivateSetUp> {
  const { databaseUrl } = config;
  if (databaseUrl === null) return await privateSetUp(privateFolder, privateDatabase, say);
  return {
    databaseUrl,
    apiKey: config.apiKey ?? '',
    tokenSecret: config.tokenSecret ?? '',
    stop: async () => {},
  };
}

/** Migrates a database that is given; the private set-up has migrated its own. */
export async function migrateGiven(config: Config): Promise<void> {
  if (config.databaseUrl === null) return;
  const applied = await migrate(config.migrateDatabaseUrl ?? config.databaseUrl);
  if (applied.length > 0) say(`Migrated the schema: ${applied.join(', ')}`);
}

/** Opens the service's database for a command, closes it afterwards. */
export async function withDatabase<T>(work: (database: Database) => Promise<T>): Promise<T> {
  const config = readConfig(process.env);
  if (config.databaseUrl === null && !existsSync(privateFolder)) {
    throw new Error('There is no database yet: run "npm start" first, or set DATABASE_URL.');
  }
  const { databaseUrl, stop } = await setUp(config);
  try {
    const database = await Database.open(databaseUrl, { poolSize: 4 });
    try {
      return await work(database);
    } finally {
      await database.close(5_000);
    }
  } finally {
    await stop();
  }
}
