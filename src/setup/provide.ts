import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import mysql from 'mysql2/promise';
import { privateServer, type ProvidedDatabase } from './local-server.ts';
import { findServer } from './server-binary.ts';

type Say = (line: string) => void;

/**
 * A database when none is given, in this order: a private server from a program on this machine; a container; on
 * Debian or Ubuntu, as root, the distribution's MariaDB package. Throws with the three ways when none works.
 */
export async function provideDatabase(folder: string, say: Say): Promise<ProvidedDatabase> {
  const binary = findServer();
  if (binary !== null) return await privateServer(folder, binary, say);
  if (dockerAnswers()) return await container(folder, say);
  if (mayInstall()) {
    installMariaDb(say);
    const installed = findServer();
    if (installed !== null) return await privateServer(folder, installed, say);
  }
  throw new Error(
    'Luckyledger needs a MySQL (8.0 or later) or MariaDB (10.6 or later) server. Do one of these and start again:\n' +
      '  1. Set DATABASE_URL=mysql://user:password@host:3306/database\n' +
      '  2. Install mysqld or mariadbd on this machine (Debian, Ubuntu: apt-get install mariadb-server)\n' +
      '  3. Start a Docker engine',
  );
}

function dockerAnswers(): boolean {
  return spawnSync('docker', ['info'], { stdio: 'ignore', timeout: 10_000 }).status === 0;
}

function mayInstall(): boolean {
  return (
    process.getuid?.() === 0 &&
    existsSync('/etc/debian_version') &&
    spawnSync('which', ['apt-get']).status === 0
  );
}

/** Installs the package without letting it start its own server. */
function installMariaDb(say: Say): void {
  say('Installing the MariaDB package of this distribution (about a minute)');
  const policy = '/usr/sbin/policy-rc.d';
  const script =
    `set -e; test -e ${policy} && kept=1 || { printf '#!/bin/sh\\nexit 101\\n' > ${policy}; chmod +x ${policy}; kept=0; }; ` +
    `trap 'test $kept = 1 || rm -f ${policy}' EXIT; apt-get update -qq; ` +
    `apt-get install -y -qq --no-install-recommends mariadb-server`;
  const done = spawnSync('sh', ['-c', script], {
    encoding: 'utf8',
    timeout: 600_000,
    env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' },
  });
  if (done.status !== 0)
    throw new Error(
      `The package could not be installed:\n${done.stderr.trim().split('\n').slice(-5).join('\n')}`,
    );
}

const image = 'mysql:9.7';

/** A MySQL container with a named volume, so that the data survive it. */
async function container(folder: string, say: Say): Promise<ProvidedDatabase> {
  mkdirSync(folder, { recursive: true });
  const passwordFile = join(folder, 'container-password');
  if (!existsSync(passwordFile))
    writeFileSync(passwordFile, randomBytes(18).toString('base64url'), { mode: 0o600 });
  const password = readFileSync(passwordFile, 'utf8').trim();
  const name = 'luckyledger-database';
  say(`Starting a container of ${image} (${name}); its data are in the volume of the same name`);
  spawnSync('docker', ['rm', '-f', name], { stdio: 'ignore' });
  const run = spawnSync(
    'docker',
    [
      'run',
      '-d',
      '--name',
      name,
      '-v',
      `${name}:/var/lib/mysql`,
      '-e',
      'MYSQL_ROOT_PASSWORD',
      '-p',
      '127.0.0.1::3306',
      image,
    ],
    { encoding: 'utf8', timeout: 600_000, env: { ...process.env, MYSQL_ROOT_PASSWORD: password } },
  );
  if (run.status !== 0) throw new Error(`The container did not start: ${run.stderr.trim()}`);
  const port =
    spawnSync('docker', ['port', name, '3306'], { encoding: 'utf8' }).stdout.trim().split(':').at(-1) ?? '';
  const adminUrl = `mysql://root:${encodeURIComponent(password)}@127.0.0.1:${port}`;
  const deadline = Date.now() + 120_000;
  for (;;) {
    try {
      const connection = await mysql.createConnection({ uri: adminUrl, connectTimeout: 2_000 });
      await connection.end();
      break;
    } catch (error) {
      if (Date.now() > deadline)
        throw new Error('The container did not answer within two minutes', { cause: error });
      await new Promise((done) => {
        setTimeout(done, 500);
      });
    }
  }
  return {
    adminUrl,
    description: `a container of ${image} on 127.0.0.1:${port}`,
    stop: async () => {
      spawnSync('docker', ['stop', name], { stdio: 'ignore' });
      await Promise.resolve();
    },
  };
}
