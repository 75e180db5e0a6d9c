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
      WORKERS: '65',
    };
    assert.throws(() => readConfig(wrong), /DATABASE_URL[^]*PORT[^]*WORKERS[^]*POOL_SIZE[^]*LOG_LEVEL/);
    assert.throws(() => readConfig(wrong), /^(?![^]*hunter2)/);
  });

  it('REDIS_URL brings the gate, with defaults for its limits', () => {
    const url = 'rediss://user:p%40ss@redis.example:6380/2';
    assert.deepEqual(readConfig({ REDIS_URL: url }).gate, { url, limit: 10_000, windowMs: 1_000 });
    const small = { REDIS_URL: 'redis://[::1]', GATE_LIMIT: '5', GATE_WINDOW_MS: '250' };
    assert.deepInclude(readConfig(small).gate, { limit: 5, windowMs: 250 });
    assert.isNull(readConfig({ GATE_LIMIT: '5', REDIS_URL: '' }).gate);
  });

  it('refuses what is no address of a Redis, and never shows it', () => {
    for (const REDIS_URL of [
      'http://h',
      'redis://',
      'redis:///0',
      'redis://h:70000',
      'redis://h/zero',
      'redis://u:hunter2%zz@h',
      'redis://h?tls=false',
      'h:6379',
    ]) {
      assert.throws(() => readConfig({ REDIS_URL }), /REDIS_URL: must look like redis:\/\//, REDIS_URL);
      assert.throws(() => readConfig({ REDIS_URL }), /^(?![^]*hunter2)/);
    }
    for (const GATE_LIMIT of ['0', '-1', '1.5', 'many'])
      assert.throws(() => readConfig({ GATE_LIMIT }), /GATE_LIMIT/);
    for (const GATE_WINDOW_MS of ['0', '9', 'long'])
      assert.throws(() => readConfig({ GATE_WINDOW_MS }), /GATE_WINDOW_MS/);
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
