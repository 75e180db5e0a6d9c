import mysql from 'mysql2/promise';
import { readConfig } from '../config.ts';
import { migrate } from '../database/migrate.ts';
import { applyRoles, giveRole } from './private.ts';

/**
 * `node dist/setup/prepare.js`: as the administrator of MIGRATE_DATABASE_URL, brings the schema and the roles up to
 * date, and makes the user of DATABASE_URL with the rights of the service and no others. Running it again is harmless.
 */
async function prepare(databaseUrl: string | null, migrateDatabaseUrl: string | null): Promise<void> {
  if (databaseUrl === null || migrateDatabaseUrl === null)
    throw new Error('Set MIGRATE_DATABASE_URL (an administrator) and DATABASE_URL (the service).');
  const service = new URL(databaseUrl);
  const applied = await migrate(migrateDatabaseUrl);
  console.log(applied.length === 0 ? 'The schema is up to date.' : `Applied ${applied.join(', ')}.`);
  const admin = await mysql.createConnection({ uri: migrateDatabaseUrl });
  try {
    await applyRoles(admin);
    const [user, password] = [service.username, service.password].map(decodeURIComponent);
    await giveRole(admin, user ?? '', password ?? '', 'luckyledger_service');
    console.log(`The user ${user ?? ''} has the role luckyledger_service.`);
  } finally {
    await admin.end();
  }
}

const config = readConfig(process.env);
await prepare(config.databaseUrl, config.migrateDatabaseUrl);
