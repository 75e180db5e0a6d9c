import { createHash, randomBytes } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import mysql from 'mysql2/promise';
import { dbFolder, migrate, sqlStatements } from '../database/migrate.ts';
import { createFile, readIfThere } from './files.ts';
import { provideDatabase } from './provide.ts';

export interface PrivateSetUp {
  /** Of the service's own user, which has the rights of `db/roles.sql` and no others. */
  databaseUrl: string;
  apiKey: string;
  tokenSecret: string;
  stop: () => Promise<void>;
}

interface Secrets {
  apiKey: string;
  tokenSecret: string;
  servicePassword: string;
}

/** Everything that `npm start` needs when nothing is given: a database, migrated, with its roles, and secrets that stay. */
export async function privateSetUp(
  folder: string,
  database: string,
  say: (line: string) => void,
): Promise<PrivateSetUp> {
  const provided = await provideDatabase(folder, say);
  try {
    const secrets = readSecrets(folder);
    const databaseUrl = `${provided.adminUrl}/${database}`;
    const applied = await migrate(databaseUrl);
    if (applied.length > 0) say(`Migrated the schema: ${applied.join(', ')}`);
    const admin = await mysql.createConnection({ uri: databaseUrl });
    try {
      await applyRoles(admin);
      await giveRole(admin, `${database}_service`, secrets.servicePassword, 'luckyledger_service');
      await letAuditorIn(admin, folder, database, new URL(provided.adminUrl), secrets);
    } finally {
      await admin.end();
    }
    const url = new URL(databaseUrl);
    url.username = `${database}_service`;
    url.password = secrets.servicePassword;
    return {
      databaseUrl: url.href,
      apiKey: secrets.apiKey,
      tokenSecret: secrets.tokenSecret,
      stop: provided.stop,
    };
  } catch (error) {
    await provided.stop();
    throw error;
  }
}

/** A user with the auditor's role, and an option file with which the bare client logs in as that user. */
async function letAuditorIn(
  admin: mysql.Connection,
  folder: string,
  database: string,
  server: URL,
  secrets: Secrets,
): Promise<void> {
  const user = `${database}_auditor`;
  const password = createHash('sha256')
    .update(`auditor:${secrets.servicePassword}`)
    .digest('hex')
    .slice(0, 32);
  await giveRole(admin, user, password, 'luckyledger_auditor');
  const options = [
    '[client]',
    `host=${server.hostname}`,
    `port=${server.port}`,
    'protocol=tcp',
    `user=${user}`,
    `password=${password}`,
  ];
  // Written at each start: the port may have changed.
  writeFileSync(join(folder, 'auditor.cnf'), `${options.join('\n')}\n`, { mode: 0o600 });
}

/** Creates the three roles in the connection's database, or brings them up to date. */
export async function applyRoles(admin: mysql.Connection): Promise<void> {
  for (const sql of sqlStatements(await readFile(new URL('roles.sql', dbFolder), 'utf8')))
    await admin.query(sql);
}

/**
 * Makes a user whose rights are those of one role. Names and passwords are our own, not a caller's. It is made for
 * `localhost` too: where a server has an anonymous user there, that one would come before `%`.
 */
export async function giveRole(
  admin: mysql.Connection,
  user: string,
  password: string,
  role: string,
): Promise<void> {
  const [rows] = await admin.query<mysql.RowDataPacket[]>('SELECT VERSION() AS version');
  const verb = /mariadb/i.test(String(rows[0]?.['version'])) ? 'FOR' : 'TO';
  for (const host of ['%', 'localhost']) {
    const account = `${mysql.escape(user)}@'${host}'`;
    await admin.query(`CREATE USER IF NOT EXISTS ${account} IDENTIFIED BY ${mysql.escape(password)}`);
    await admin.query(`ALTER USER ${account} IDENTIFIED BY ${mysql.escape(password)}`);
    await admin.query(`GRANT ${role} TO ${account}`);
    await admin.query(`SET DEFAULT ROLE ${role} ${verb} ${account}`);
  }
}

/** Made once; of two first starts at the same time, one makes them and both read them. */
function readSecrets(folder: string): Secrets {
  const path = join(folder, 'secrets.json');
  const kept = readIfThere(path);
  if (kept !== null) return JSON.parse(kept) as Secrets;
  const fresh: Secrets = {
    apiKey: randomBytes(24).toString('base64url'),
    tokenSecret: randomBytes(32).toString('base64url'),
    servicePassword: randomBytes(18).toString('base64url'),
  };
  createFile(path, `${JSON.stringify(fresh)}\n`);
  return readSecrets(folder);
}
