import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { assert } from 'chai';
import { finderIn } from '../../src/setup/server-binary.ts';

describe('server programs on the machine', () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'luckyledger-programs-'));
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  const program = (name: string, tells: string): void =>
    writeFileSync(join(folder, name), `#!/bin/sh\necho '${tells}'\n`, { mode: 0o755 });

  it('a mysqld that is MariaDB is MariaDB', () => {
    program('mysqld', 'mysqld  Ver 10.11.6-MariaDB-0+deb12u1 for debian-linux-gnu on x86_64 (Debian 12)');
    program('mariadb-install-db', '');
    const found = finderIn([folder])();
    assert.equal(found?.engine, 'mariadb');
    assert.equal(found?.version, '10.11.6');
    assert.equal(found?.installer, join(folder, 'mariadb-install-db'));
    assert.isNull(finderIn([folder])('mysql'));
  });

  it('finds MySQL, and the engine that is asked for', () => {
    program('mysqld', '/usr/sbin/mysqld  Ver 8.4.3 for Linux on x86_64 (MySQL Community Server - GPL)');
    program('mariadbd', 'mariadbd  Ver 11.8.2-MariaDB for Linux on x86_64');
    program('mariadb-install-db', '');
    assert.equal(finderIn([folder])()?.engine, 'mysql');
    assert.equal(finderIn([folder])('mariadb')?.version, '11.8.2');
  });

  it('passes over what is too old or no server, and programs that fail', () => {
    program('mysqld', 'mysqld  Ver 5.7.44 for Linux on x86_64 (MySQL Community Server (GPL))');
    assert.isNull(finderIn([folder])());
    program('mysqld', 'hello');
    assert.isNull(finderIn([folder])());
    writeFileSync(join(folder, 'mysqld'), '#!/bin/sh\necho Ver 8.4.3; exit 1\n', { mode: 0o755 });
    assert.isNull(finderIn([folder])());
    assert.isNull(finderIn([join(folder, 'nowhere')])());
  });
});
