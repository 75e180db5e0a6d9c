import { assert } from 'chai';
import { readConfig } from '../../src/config.ts';

describe('configuration', () => {
  it('has defaults, and takes an empty value for unset', () => {
    assert.deepEqual(readConfig({ PORT: '', API_KEY: '' }), {
      databaseUrl: null,
      migrateDatabaseUrl: null,
      host: '127.0.0.1',
      port: 8080,
      apiKey: null,
      tokenSecret: null,
      workers: 1,
      poolSize: 16,
      logLevel: 'info',
    });
  });

  it('names every fault, and never a value: it may be a secret', () => {
    const wrong = {
      PORT: '70000',
      DATABASE_URL: 'postgres://u:hunter2@h/d',
      POOL_SIZE: 'many',
      LOG_LEVEL: 'loud',
      WORKERS: '65',
    };
    assert.throws(() => readConfig(wrong), /DATABASE_URL[^]*PORT[^]*WORKERS[^]*POOL_SIZE[^]*LOG_LEVEL/);
    assert.throws(() => readConfig(wrong), /^(?![^]*hunter2)/);
  });

  it('has 1 to 64 workers', () => {
    for (const text of ['0', '65', '-1', '1.5', 'many'])
      assert.throws(() => readConfig({ WORKERS: text }), /WORKERS/);
    assert.deepEqual(
      ['1', '64', ''].map((text) => readConfig({ WORKERS: text }).workers),
      [1, 64, 1],
    );
  });

  it('a URL that names no database means luckyledger', () => {
    assert.equal(
      readConfig({ DATABASE_URL: 'mysql://u:p@h:3306' }).databaseUrl,
      'mysql://u:p@h:3306/luckyledger',
    );
    assert.equal(readConfig({ DATABASE_URL: 'mysql://u:p@h/x?ssl' }).databaseUrl, 'mysql://u:p@h/x?ssl');
  });
});
