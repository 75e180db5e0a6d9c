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
      poolSize: 16,
      gate: null,
      logLevel: 'info',
    });
  });

  it('names every fault, and never a value: it may be a secret', () => {
    const wrong = {
      PORT: '70000',
      DATABASE_URL: 'postgres://u:hunter2@h/d',
      POOL_SIZE: 'many',
      LOG_LEVEL: 'loud',
    };
    assert.throws(() => readConfig(wrong), /DATABASE_URL[^]*PORT[^]*POOL_SIZE[^]*LOG_LEVEL/);
    assert.throws(() => readConfig(wrong), /^(?![^]*hunter2)/);
  });

  it('a URL that names no database means luckyledger', () => {
    assert.equal(
      readConfig({ DATABASE_URL: 'mysql://u:p@h:3306' }).databaseUrl,
      'mysql://u:p@h:3306/luckyledger',
    );
    assert.equal(readConfig({ DATABASE_URL: 'mysql://u:p@h/x?ssl' }).databaseUrl, 'mysql://u:p@h/x?ssl');
  });
});
