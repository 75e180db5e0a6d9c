import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { assert } from 'chai';
import { createFile, readIfThere } from '../../src/setup/files.ts';
import { withLock } from '../../src/setup/lock.ts';
import { isAlive, self } from '../../src/setup/process.ts';
import { Users } from '../../src/setup/users.ts';

describe('lock and users of a private folder', () => {
  let home: string;
  beforeEach(() => {
    home = mkdtempSync(join(tmpdir(), 'luckyledger-lock-'));
  });
  afterEach(() => rmSync(home, { recursive: true, force: true }));

  it('lets one work at a time, over a lock that a dead process left', async () => {
    writeFileSync(join(home, 'lock'), JSON.stringify({ pid: 2 ** 22 + 1, since: '1' }));
    let inside = 0;
    let most = 0;
    const done: number[] = [];
    const work = async (index: number): Promise<void> => {
      inside += 1;
      most = Math.max(most, inside);
      await new Promise(setImmediate);
      inside -= 1;
      done.push(index);
    };
    await Promise.all(
      [0, 1, 2, 3].map(
        async (index) =>
          await withLock(
            home,
            () => {},
            () => work(index),
          ),
      ),
    );
    assert.equal(most, 1);
    assert.sameMembers(done, [0, 1, 2, 3]);
    assert.isNull(readIfThere(join(home, 'lock')));
  });

  it('is free again after a failure', async () => {
    const failed = await withLock(
      home,
      () => {},
      () => Promise.reject(new Error('no')),
    ).catch(String);
    assert.equal(failed, 'Error: no');
    assert.equal(
      await withLock(
        home,
        () => {},
        async () => await Promise.resolve(1),
      ),
      1,
    );
  });

  it('a process is known by its number and its start', () => {
    assert.isTrue(isAlive(self()));
    assert.isFalse(isAlive({ ...self(), since: 'another time' }));
    assert.isFalse(isAlive({ pid: -1, since: '' }));
  });

  it('the last use to leave is told so; the dead do not count', () => {
    const users = new Users(home);
    const [first, second] = [users.enter(), users.enter()];
    createFile(join(home, 'users', 'dead'), JSON.stringify({ pid: process.pid, since: 'long ago' }));
    assert.isFalse(users.leave(first));
    assert.isFalse(users.leave(first), 'once');
    assert.isTrue(users.leave(second));
  });

  it('a file that is there is never replaced by a second maker', () => {
    const path = join(home, 'secrets');
    assert.isTrue(createFile(path, 'first'));
    assert.isFalse(createFile(path, 'second'));
    assert.equal(readIfThere(path), 'first');
  });
});
