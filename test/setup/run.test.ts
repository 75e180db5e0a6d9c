import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { assert } from 'chai';
import { run } from '../../src/setup/process.ts';
import { adminUrl } from '../support/engine.ts';

/** npm test must not be green by accident. */
describe('npm test', function () {
  this.timeout(60_000);
  let folder: string;
  before(() => {
    folder = mkdtempSync(join(tmpdir(), 'luckyledger-run-'));
  });
  after(() => rmSync(folder, { recursive: true, force: true }));

  const closing = async (source: string): Promise<{ status: number | null; line: string | undefined }> => {
    const file = join(folder, 'inner.test.ts');
    writeFileSync(file, source);
    const { status, stdout } = await run(process.execPath, ['test/run.mjs', file], {
      timeoutMs: 50_000,
      env: { ...process.env, TEST_PROVIDER: 'url', TEST_DATABASE_URL: adminUrl(), TEST_LABEL: '' },
    });
    return { status, line: stdout.trim().split('\n').at(-1) };
  };

  const cases: [string, string, string, number][] = [
    ['passes', "it('a', () => {}); it('b', () => {});", '2 passed, 0 failed', 0],
    ['a failure', "it('a', () => {}); it('b', () => { throw new Error('no'); });", '1 passed, 1 failed', 1],
    ['a skipped test', "it('a', () => {}); it.skip('b', () => {});", '1 passed, 1 failed', 1],
    ['no test', "describe('nothing', () => {});", '0 passed, 1 failed', 1],
    ['a file that does not load', "import './nowhere.ts';", '0 passed, 1 failed', 1],
    ['a process that ends in a test', "it('a', () => process.exit(0));", '0 passed, 1 failed', 1],
  ];
  for (const [what, source, line, status] of cases) {
    it(`counts ${what}`, async () => {
      assert.deepEqual(await closing(source), { status, line });
    });
  }
});
