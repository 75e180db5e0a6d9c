import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';

export interface ServerBinary {
  engine: 'mysql' | 'mariadb';
  server: string;
  /** MariaDB's initialiser; MySQL's server initialises itself. */
  installer: string | null;
}

const folders = [
  ...(process.env['PATH'] ?? '').split(':'),
  '/usr/sbin',
  '/usr/bin',
  '/usr/libexec',
  '/usr/local/sbin',
  '/usr/local/mysql/bin',
];

/**
 * A database server on this machine, or null. `mysqld` is a link to MariaDB's server on some systems, so the
 * program itself is asked what it is. `only` asks for one engine.
 */
export function findServer(only?: ServerBinary['engine']): ServerBinary | null {
  for (const name of ['mysqld', 'mariadbd']) {
    for (const folder of folders) {
      const server = join(folder, name);
      if (folder === '' || !existsSync(server)) continue;
      const told = spawnSync(server, ['--no-defaults', '--version'], { encoding: 'utf8', timeout: 10_000 });
      if (told.status !== 0) continue;
      const engine = /mariadb/i.test(told.stdout) ? 'mariadb' : 'mysql';
      if (only !== undefined && engine !== only) continue;
      const installer = engine === 'mariadb' ? findInstaller(server) : null;
      if (engine === 'mariadb' && installer === null) continue;
      return { engine, server, installer };
    }
  }
  return null;
}

function findInstaller(server: string): string | null {
  for (const folder of [dirname(server), ...folders, '/usr/share/mysql/scripts']) {
    for (const name of ['mariadb-install-db', 'mysql_install_db']) {
      if (folder !== '' && existsSync(join(folder, name))) return join(folder, name);
    }
  }
  return null;
}
