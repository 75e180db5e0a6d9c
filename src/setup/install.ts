import { existsSync } from 'node:fs';
import { run, tail } from './process.ts';

const installWaitMs = 600_000;
const policy = '/usr/sbin/policy-rc.d';

/** Whether this is root on Debian or Ubuntu, or something made from them. */
export function mayInstall(): boolean {
  return process.getuid?.() === 0 && existsSync('/etc/debian_version') && existsSync('/usr/bin/apt-get');
}

/** Installs the distribution's MariaDB package. Throws with the end of what apt-get said. */
export async function installMariaDb(say: (line: string) => void): Promise<void> {
  say('Installing the MariaDB package of this distribution (about a minute)');
  await installPackage('mariadb-server');
}

/**
 * Installs a server's package, and keeps it from starting a server of its own: what a package may start at its
 * installation is asked of `policy-rc.d`, and 101 means nothing. Throws with the end of what apt-get said.
 */
export async function installPackage(name: string): Promise<void> {
  const apt = 'apt-get -qq -o Acquire::Retries=3 -o DPkg::Lock::Timeout=120';
  const script =
    `set -e\n` +
    `if [ ! -e ${policy} ]; then\n` +
    `  trap 'rm -f ${policy}' EXIT; trap 'exit 1' INT TERM\n` +
    `  printf '#!/bin/sh\\nexit 101\\n' >${policy}; chmod +x ${policy}\n` +
    `fi\n` +
    `${apt} update\n` +
    `${apt} install -y --no-install-recommends ${name}`;
  const done = await run('sh', ['-c', script], {
    timeoutMs: installWaitMs,
    env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' },
  });
  if (done.status !== 0)
    throw new Error(
      `the package ${name} could not be installed: ${tail(`${done.stdout}\n${done.stderr}`, 5)}`,
    );
}
