import mocha from 'mocha';

/** mocha's spec report, then one line that counts: a pending test counts as a failure, since nothing may be skipped. */
// mocha takes a reporter's default export.
// oxlint-disable-next-line import/no-default-export
export default class Reporter extends mocha.reporters.Spec {
  /**
   * @param {import('mocha').Runner} runner
   * @param {import('mocha').MochaOptions} options
   */
  constructor(runner, options) {
    super(runner, options);
    runner.once('end', () => {
      const { passes = 0, failures = 0, pending = 0 } = runner.stats ?? {};
      const label = process.env['TEST_LABEL'] ?? '';
      const total = passes + failures + pending;
      if (pending > 0) console.error(`${pending} tests were skipped, which counts as failed`);
      if (total === 0) console.error('no test ran, which counts as failed');
      const failed = failures + pending + (total === 0 ? 1 : 0);
      console.log(
        label === '' ? `${passes} passed, ${failed} failed` : `[${label}] passed=${passes} failed=${failed}`,
      );
      if (failed > 0) process.exitCode = 1;
    });
  }
}
