import { assert } from 'chai';
import { scrubbed } from '../../src/observe/log.ts';
import { Metrics } from '../../src/observe/metrics.ts';

describe('what is logged of an error', () => {
  it('keeps number, code and place of a database error, and none of its values', () => {
    const error = Object.assign(new Error("Duplicate entry 'secret-value\n    at secret-value' for key"), {
      errno: 1062,
      code: 'ER_DUP_ENTRY',
      sql: 'INSERT secret-value',
      sqlMessage: 'secret-value',
    });
    const logged = scrubbed(new Error('the unit failed', { cause: error }));
    assert.include(logged, { error: 'Error', message: 'the unit failed' });
    assert.deepInclude(logged['cause'], { errno: 1062, errorCode: 'ER_DUP_ENTRY' });
    assert.notInclude(JSON.stringify(logged), 'secret-value');
    assert.match(JSON.stringify(logged), /observe\.test/);
  });

  it('ends on a circle of causes and takes what is no error', () => {
    const error = new Error('a');
    error.cause = error;
    assert.isNotEmpty(JSON.stringify(scrubbed(error)));
    for (const thrown of ['secret-value', 1, null, undefined, { secret: 1 }])
      assert.deepEqual(scrubbed(thrown), { error: typeof thrown });
  });
});

describe('metrics', () => {
  it('makes counters and distributions for features, each name once', async () => {
    const metrics = new Metrics();
    const scans = metrics.counter('test_scans_total', 'Scans.', ['outcome']);
    scans.inc({ outcome: 'CHECKED_IN' });
    metrics.histogram('test_wait_seconds', 'Waits.', [1, 2]).observe(1.5);
    metrics.gauge('test_waiting', 'Waiting.', () => 7);
    const text = await metrics.registry.metrics();
    for (const line of [
      'test_scans_total{outcome="CHECKED_IN"} 1',
      'test_wait_seconds_bucket{le="2"} 1',
      'test_waiting 7',
    ])
      assert.include(text, `${line}\n`);
    assert.throws(() => metrics.counter('test_scans_total', 'Scans.'));
  });
});
