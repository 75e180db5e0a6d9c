import { assert } from 'chai';
import { pause } from '../../src/setup/process.ts';
import { rootKey } from '../support/api.ts';

/** Waits until something is so; fails when it is not in 10 s. */
export async function until(what: string, test: () => boolean | Promise<boolean>): Promise<void> {
  const deadline = Date.now() + 10_000;
  while (!(await test())) {
    assert.isBelow(Date.now(), deadline, `waited in vain until ${what}`);
    await pause(5);
  }
}

export const warned = /the gate does not reach Redis/;
export const recovered = /the gate reaches Redis again/;

/** How many lines of a log say this. */
export function count(lines: readonly Record<string, unknown>[], text: RegExp): number {
  return lines.filter(({ message }) => typeof message === 'string' && text.test(message)).length;
}

export interface Answer {
  status: number;
  code: string | null;
  amount: number | null;
  retryAfter: number | null;
}

/** One grab over HTTP. */
export async function grab(address: string, packetId: string, userId: string): Promise<Answer> {
  const response = await fetch(`${address}/v1/packets/${packetId}/grabs`, {
    method: 'POST',
    headers: { authorization: `Bearer ${rootKey}`, 'content-type': 'application/json' },
    body: JSON.stringify({ userId }),
  });
  const { code = null, amount = null } = (await response.json()) as { code?: string; amount?: number };
  const header = response.headers.get('retry-after');
  return { status: response.status, code, amount, retryAfter: header === null ? null : Number(header) };
}

/** As a caller does: shed, it comes back after `Retry-After`. `sheds` counts how often that was. */
export async function grabPatiently(
  address: string,
  packetId: string,
  userId: string,
  sheds: { count: number } = { count: 0 },
): Promise<Answer> {
  for (;;) {
    const answer = await grab(address, packetId, userId);
    if (answer.status !== 429) return answer;
    assert.equal(answer.code, 'SHED');
    assert.isAtLeast(answer.retryAfter ?? 0, 1);
    sheds.count += 1;
    await pause((answer.retryAfter ?? 0) * 1_000);
  }
}

/** `{201: 10, 'SOLD_OUT': 5}`: refusals by their code. */
export function tallyOf(answers: readonly Answer[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { status, code } of answers) {
    const name = code ?? String(status);
    counts[name] = (counts[name] ?? 0) + 1;
  }
  return counts;
}
