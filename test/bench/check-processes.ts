import { spawn } from 'node:child_process';
import { assert } from 'chai';
import { cpuSeconds, measureCpu, pidOfServer } from './processes.ts';
import { startRedis } from './redis.ts';

/** Checks of what the benchmark says of processes and of Redis. node --import tsx test/bench/check-processes.ts */

/** A process and a child of its own that each use 0.5 s. */
async function checkCpu(): Promise<void> {
  const burn = 'let c; do c = process.cpuUsage(); while (c.user + c.system < 5e5);';
  const both = `require('node:child_process').spawn(process.execPath, ['-e', ${JSON.stringify(burn)}]); ${burn} setInterval(() => {}, 1000);`;
  const child = spawn(process.execPath, ['-e', both], { stdio: 'inherit' });
  const pid = child.pid ?? 0;
  const used = measureCpu({ both: pid, none: null, missing: 2 ** 22 + 1 });
  let seconds = 0;
  const deadline = performance.now() + 10_000;
  while (seconds < 0.9 && performance.now() < deadline) {
    await new Promise((resolve) => setTimeout(resolve, 50));
    const now = used();
    assert.isNull(now['none']);
    assert.isNull(now['missing']);
    seconds = now['both'] ?? 0;
  }
  console.log(`two busy processes used ${seconds} s`);
  assert.isAtLeast(seconds, 0.9);
  assert.isBelow(seconds, 2);
  child.kill('SIGKILL');
  const own = cpuSeconds(process.pid) ?? 0;
  const { user, system } = process.cpuUsage();
  assert.closeTo(own, (user + system) / 1e6, 1);
}

async function checkRedis(): Promise<void> {
  for (const durability of ['as it comes', 'always'] as const) {
    const redis = await startRedis(durability);
    console.log(`redis, ${durability}: ${JSON.stringify(redis)}`);
    if (redis === null) continue;
    assert.isNumber(redis.pid);
    assert.isNotNull(cpuSeconds(redis.pid));
    await redis.stop();
  }
}

await checkCpu();
await checkRedis();
const url = process.env['TEST_DATABASE_URL'] ?? '';
if (url !== '') {
  const pid = pidOfServer(url, 3306);
  console.log(`the database server is process ${pid}, ${cpuSeconds(pid)} s`);
}
assert.isNull(pidOfServer('mysql://root@127.0.0.1:1', 3306));
assert.isNull(pidOfServer('mysql://root@192.0.2.1:3306', 3306));
console.log('Processes are seen as they are.');
