import { Command } from 'commander';
import mysql from 'mysql2/promise';
import { readConfig } from '../config.ts';
import { migrate } from '../database/migrate.ts';
import { applyRoles } from '../setup/private.ts';
import { print } from './output.ts';

export function migrateCommand(): Command {
  return new Command('migrate')
    .description(
      'bring the schema of MIGRATE_DATABASE_URL, or DATABASE_URL, up to date; safe from several places at once',
    )
    .option('--roles', 'also apply db/roles.sql (needs an administrator)')
    .action(async ({ roles }: { roles?: boolean }) => {
      const config = readConfig(process.env);
      const url = config.migrateDatabaseUrl ?? config.databaseUrl;
      if (url === null)
        throw new Error('Set MIGRATE_DATABASE_URL or DATABASE_URL. ("npm start" alone migrates by itself.)');
      const applied = await migrate(url);
      print(applied.length === 0 ? 'The schema is up to date.' : `Applied ${applied.join(', ')}.`);
      if (roles !== true) return;
      const admin = await mysql.createConnection({ uri: url });
      try {
        await applyRoles(admin);
        print('The roles are up to date.');
      } finally {
        await admin.end();
      }
    });
}
