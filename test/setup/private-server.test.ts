import { once } from 'node:events';
import { existsSync, mkdirSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { assert } from 'chai';
import { privateServer } from '../../src/setup/local-server.ts';
import { provideDatabase } from '../../src/setup/provide.ts';
import { findServer, type ServerBinary } from '../../src/setup/server-binary.ts';
import { writeState } from '../../src/setup/server-state.ts';
import { answers, Folder, killed, messageOf, query } from './support.ts';

describe('private server', function () {
  this.timeout(120_000);
  let folder: Folder;

  before(() => {
    folder = new Folder();
  });
  after(() => folder.remove());

  const program = (): ServerBinary => {
    const binary = findServer();
    if (binary === null) throw new Error('no server program');
    return binary;
  };

  it('a start that was cut short leaves nothing that is taken for data', async () => {
    mkdirSync(join(folder.path, 'data.new'));
    writeFileSync(join(folder.path, 'data.new', 'half'), 'x');
    const { adminUrl, stop } = await folder.provide();
    await query(adminUrl, 'CREATE DATABASE kept');
    await query(adminUrl, 'CREATE TABLE kept.t (n INT PRIMARY KEY)');
    await stop();
    assert.notInclude(readdirSync(join(folder.path, 'data')), 'half');
    assert.notInclude(readdirSync(folder.path), 'data.new');
  });

  it('listens on 127.0.0.1 only, lets in by password only, and keeps it from others', async () => {
    const { adminUrl, stop } = await folder.provide();
    const [bind] = (await query(adminUrl, 'SELECT @@bind_address AS address')) as [{ address: string }];
    assert.equal(bind.address, '127.0.0.1');
    const url = new URL(adminUrl);
    url.password = '';
    assert.isFalse(await answers(url.href), 'no password, no entry');
    assert.equal(statSync(join(folder.path, 'server.json')).mode & 0o777, 0o600);
    assert.equal(statSync(join(folder.path, 'init.sql')).mode & 0o777, 0o600);
    const users = await query(adminUrl, "SELECT User FROM mysql.user WHERE User = '' OR Host = '%'");
    assert.deepEqual(users, []);
    await stop();
  });

  it('keeps its data, its port and its password over stop and start', async () => {
    const first = await folder.provide();
    await query(first.adminUrl, 'INSERT INTO kept.t VALUES (1)');
    await first.stop();
    assert.isFalse(await answers(first.adminUrl), 'the last user ends it');
    const second = await folder.provide();
    assert.equal(second.adminUrl, first.adminUrl);
    assert.deepEqual(await query(second.adminUrl, 'SELECT n FROM kept.t'), [{ n: 1 }]);
    await second.stop();
  });

  it('a server that was killed comes back with all that was committed', async () => {
    const first = await folder.provide();
    await query(first.adminUrl, 'INSERT INTO kept.t VALUES (2)');
    process.kill(folder.serverPid(), 'SIGKILL');
    const second = await folder.provide();
    assert.deepEqual(await query(second.adminUrl, 'SELECT n FROM kept.t ORDER BY n'), [{ n: 1 }, { n: 2 }]);
    await first.stop();
    assert.isTrue(await answers(second.adminUrl), 'a use of the dead server ends nothing');
    await second.stop();
    assert.isFalse(await answers(second.adminUrl));
  });

  it('the server of a killed process is used by the next one, and ended by it', async () => {
    const { adminUrl, child } = await folder.provideElsewhere();
    const pid = folder.serverPid();
    await killed(child);
    assert.isTrue(await answers(adminUrl), 'an orphan');
    const next = await folder.provide();
    assert.equal(folder.serverPid(), pid, 'the same server');
    await next.stop();
    assert.isFalse(await answers(adminUrl));
  });

  it('a process that comes second shares the server, and neither takes it from the other', async () => {
    const first = await folder.provide();
    const second = await folder.provideElsewhere();
    assert.equal(second.adminUrl, first.adminUrl);
    await second.leave();
    assert.isTrue(await answers(first.adminUrl), 'the second one left it alone');
    const third = await folder.provideElsewhere();
    await first.stop();
    assert.isTrue(await answers(third.adminUrl), 'who started it leaves it to who uses it');
    await third.leave();
    assert.isFalse(await answers(third.adminUrl), 'the last one ended it');
  });

  it('a killed start that held the lock, and whose process number is another’s now, stops nobody', async () => {
    writeFileSync(join(folder.path, 'lock'), JSON.stringify({ pid: process.pid, since: 'long ago' }));
    const { adminUrl, stop } = await folder.provide();
    assert.isTrue(await answers(adminUrl));
    await stop();
    assert.isFalse(existsSync(join(folder.path, 'lock')));
  });

  it('moves to another port when its own is taken, and says so', async () => {
    const { port } = folder.state();
    const squatter = createServer().listen(port, '127.0.0.1');
    await once(squatter, 'listening');
    const { adminUrl, stop } = await folder.provide();
    assert.notEqual(new URL(adminUrl).port, String(port));
    assert.deepEqual(await query(adminUrl, 'SELECT n FROM kept.t ORDER BY n'), [{ n: 1 }, { n: 2 }]);
    assert.include(folder.said.join('\n'), `Port ${port} of the private database is taken`);
    await stop();
    squatter.close();
  });

  it('data of another engine, or of a newer one, are refused with what to do', async () => {
    const state = folder.state();
    const other = state.engine === 'mysql' ? 'mariadb' : 'mysql';
    const only = program();
    const refused = [
      await messageOf(privateServer(folder.path, { ...only, engine: other }, folder.say, () => null)),
      await messageOf(provideDatabase(folder.path, folder.say, { container: false, find: () => null })),
    ];
    for (const message of refused) {
      assert.include(message, folder.path);
      assert.include(message, state.engine);
      assert.include(message, 'Install');
    }
    writeState(folder.path, { ...state, version: '99.1.0' });
    const newer = await messageOf(folder.provide());
    assert.include(newer, '99.1.0');
    assert.include(newer, 'cannot read them');
    const { version, ...unversioned } = state;
    writeFileSync(join(folder.path, 'server.json'), JSON.stringify(unversioned));
    await (await folder.provide()).stop();
    assert.equal(folder.state().version, version, 'noted at the next start');
  });

  it('a server that does not come up shows the end of its log, and where that is', async () => {
    // The program of `false` ends at once, like a server with a fault.
    const broken = { ...program(), server: 'false' };
    const message = await messageOf(privateServer(folder.path, broken, folder.say, () => broken));
    assert.include(message, 'ended with exit code 1');
    assert.include(message, join(folder.path, 'server.log'));
    assert.match(message, /shutdown complete/i, 'the end of the last log');
    await (await folder.provide()).stop();
  });
});

describe('private server, two first starts at once', function () {
  this.timeout(120_000);
  let folder: Folder;
  before(() => {
    folder = new Folder();
  });
  after(() => folder.remove());

  it('make one server', async () => {
    const provided = await Promise.all([
      folder.provideElsewhere(),
      folder.provideElsewhere(),
      folder.provideElsewhere(),
    ]);
    assert.lengthOf([...new Set(provided.map(({ adminUrl }) => adminUrl))], 1);
    await Promise.all(provided.map(async ({ leave }) => await leave()));
    assert.isNull(folder.state().pid, 'and the last one ended it');
  });
});
