import { resolve } from 'node:path';
import { containerServer, dockerAnswers, usesContainer } from './container.ts';
import { installMariaDb, mayInstall } from './install.ts';
import { privateServer, type ProvidedDatabase } from './local-server.ts';
import { findServer, type FindServer } from './server-binary.ts';
import { holdsServerData, readState } from './server-state.ts';

type Say = (line: string) => void;

export interface Ways {
  /** False: no container, for callers that have tried one already. */
  container?: boolean;
  /** How a server's program is found; another one in tests. */
  find?: FindServer;
}

/**
 * A database when none is given, in this order: a private server from a program on this machine; a container; on
 * Debian or Ubuntu, as root, the distribution's MariaDB package. A folder that holds data stays with the way that
 * made them: another one would come up empty. Throws with the three ways when none works, and with the reasons.
 */
export async function provideDatabase(folder: string, say: Say, ways: Ways = {}): Promise<ProvidedDatabase> {
  const find = ways.find ?? findServer;
  const home = resolve(folder);
  if (holdsServerData(home)) return await privateAgain(home, say, find);
  if (usesContainer(home)) return await containerAgain(home, say);
  const failures: string[] = [];
  const attempt = async (way: () => Promise<ProvidedDatabase | null>): Promise<ProvidedDatabase | null> => {
    try {
      return await way();
    } catch (error) {
      // Once there are data, the failure is theirs, and no other way may hide it.
      if (holdsServerData(home) || usesContainer(home)) throw error;
      const reason = error instanceof Error ? error.message : String(error);
      failures.push(reason);
      say(`That did not work: ${reason}`);
      return null;
    }
  };
  const fromProgram = async (): Promise<ProvidedDatabase | null> => {
    const binary = find();
    return binary === null ? null : await privateServer(home, binary, say, find);
  };
  const provided =
    (await attempt(fromProgram)) ??
    (await attempt(async () => {
      if (ways.container === false || !(await dockerAnswers())) return null;
      return await containerServer(home, say);
    })) ??
    (await attempt(async () => {
      // A program that is there and has failed above would fail again.
      if (!mayInstall() || find() !== null) return null;
      await installMariaDb(say);
      return await fromProgram();
    }));
  if (provided !== null) return provided;
  throw new Error(threeWays(failures));
}

async function privateAgain(home: string, say: Say, find: FindServer): Promise<ProvidedDatabase> {
  const state = readState(home);
  const binary = find(state?.engine) ?? find();
  if (binary !== null) return await privateServer(home, binary, say, find);
  throw new Error(
    `The data in ${home} belong to a ${state?.engine ?? ''} server, and there is none on this machine any more. ` +
      `Install it, or move that folder away to begin with an empty database.`,
  );
}

async function containerAgain(home: string, say: Say): Promise<ProvidedDatabase> {
  if (await dockerAnswers()) return await containerServer(home, say);
  throw new Error(
    `The data of ${home} are in a Docker volume, and no Docker engine answers. ` +
      `Start it, or move that folder away to begin with an empty database.`,
  );
}

function threeWays(failures: readonly string[]): string {
  const tried = failures.map((reason) => `\n\nTried: ${reason}`).join('');
  return (
    'Luckyledger needs a MySQL (8.0 or later) or MariaDB (10.6 or later) server. Do one of these and start again:\n' +
    '  1. Set DATABASE_URL=mysql://user:password@host:3306/database\n' +
    '  2. Install mysqld or mariadbd on this machine (Debian, Ubuntu: apt-get install mariadb-server)\n' +
    `  3. Start a Docker engine${tried}`
  );
}
