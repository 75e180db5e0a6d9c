import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { assertSupported, parseEngine, UnsupportedEngineError } from '../database/engine.ts';

export interface ServerBinary {
  engine: 'mysql' | 'mariadb';
  /** For example `10.11.6`. */
  version: string;
  server: string;
  /** MariaDB's initialiser; MySQL's server initialises itself. */
  installer: string | null;
}

/** Finds a server program, of one engine or of either. */
export type FindServer = (only?: ServerBinary['engine']) => ServerBinary | null;

const usual = [
  ...(process.env['PATH'] ?? '').split(':'),
  '/usr/sbin',
  '/usr/bin',
  '/usr/libexec',
  '/usr/local/sbin',
  '/usr/local/bin',
  '/usr/local/mysql/bin',
  '/opt/homebrew/bin',
].filter((folder) => folder !== '');

/** Looks for a server that Luckyledger can run on, in these folders. */
export function finderIn(folders: readonly string[]): FindServer {
  return (only) => {
    for (const name of ['mysqld', 'mariadbd']) {
      for (const folder of folders) {
        const binary = inspect(join(folder, name), folders);
        if (binary !== null && (only === undefined || binary.engine === only)) return binary;
      }
    }
    return null;
  };
}

/** A database server on this machine that Luckyledger can run on, or null. */
export const findServer: FindServer = finderIn(usual);

/** `mysqld` is a link to MariaDB's server on some systems, so the program itself is asked what it is. */
function inspect(server: string, folders: readonly string[]): ServerBinary | null {
  if (!existsSync(server)) return null;
  const told = spawnSync(server, ['--no-defaults', '--version'], { encoding: 'utf8', timeout: 10_000 });
  const versionText = /Ver (\S+)/.exec(told.stdout ?? '')?.[1];
  if (told.status !== 0 || versionText === undefined) return null;
  try {
    // Percona's server says only at the end of its line that it is not MySQL's own; to us it is MySQL.
    const found = parseEngine(versionText);
    assertSupported(found);
    const engine = found.name === 'MariaDB' ? 'mariadb' : 'mysql';
    const installer = engine === 'mariadb' ? findInstaller(server, folders) : null;
    if (engine === 'mariadb' && installer === null) return null;
    return { engine, version: found.version, server, installer };
  } catch (error) {
    if (error instanceof UnsupportedEngineError) return null;
    throw error;
  }
}

function findInstaller(server: string, folders: readonly string[]): string | null {
  for (const folder of [dirname(server), ...folders, '/usr/share/mysql/scripts']) {
    for (const name of ['mariadb-install-db', 'mysql_install_db']) {
      if (existsSync(join(folder, name))) return join(folder, name);
    }
  }
  return null;
}
