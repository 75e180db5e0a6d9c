import mocha from 'mocha';

/** mocha's spec report, and the counts for `run.mjs`. A pending test counts as failed: nothing may be skipped. */
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
      if (pending > 0) console.error(`${pending} tests were skipped, which counts as failed`);
      process.send?.({ passed: passes, failed: failures + pending });
    });
  }
}
