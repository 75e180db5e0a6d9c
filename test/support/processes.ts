import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';

/** Runs `grabber.ts` in one process for each list of users, all let go at once; returns their tallies, added up. */
export async function grabInProcesses(
  url: string,
  packetId: string,
  lists: readonly string[][],
): Promise<Record<string, number>> {
  const children = lists.map((users) => {
    const child = spawn(
      process.execPath,
      ['--import', 'tsx', new URL('grabber.ts', import.meta.url).pathname],
      {
        env: { ...process.env, GRABBER: JSON.stringify({ url, packetId, users }) },
        stdio: ['pipe', 'pipe', 'inherit'],
      },
    );
    const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
    return { child, lines };
  });
  const next = async (lines: AsyncIterator<string>): Promise<string> => {
    const line = await lines.next();
    if (line.done === true) throw new Error('a grabber ended early');
    return line.value;
  };
  for (const { lines } of children) {
    const line = await next(lines);
    if (line !== 'ready') throw new Error(`a grabber said ${line}`);
  }
  for (const { child } of children) child.stdin.write('go\n');
  const total: Record<string, number> = {};
  for (const { lines } of children) {
    const counts = JSON.parse(await next(lines)) as Record<string, number>;
    for (const [outcome, count] of Object.entries(counts)) total[outcome] = (total[outcome] ?? 0) + count;
  }
  return total;
}
