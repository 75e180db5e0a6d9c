import type { z } from 'zod';
import { Refusal, type Fault } from '../refusal.ts';

/** More faults than these are counted, not listed: a megabyte of wrong fields must not become megabytes of answer. */
const maxListed = 1_000;
const maxKeyCharacters = 40;

/** Collects every fault of a request, each once, so that a caller can correct all of them at once. */
export class Faults {
  readonly #faults = new Map<string, Fault>();
  #unlisted = 0;

  get any(): boolean {
    return this.#faults.size > 0;
  }

  add(path: string, message: string): void {
    const id = `${path}\n${message}`;
    if (this.#faults.has(id)) return;
    if (this.#faults.size < maxListed) this.#faults.set(id, { path, message });
    else this.#unlisted += 1;
  }

  addAll(faults: Iterable<Fault>): void {
    for (const { path, message } of faults) this.add(path, message);
  }

  /** What a schema found; `root` is the part of the request that was validated. */
  addIssues({ issues }: z.ZodError, root: string): void {
    for (const issue of issues) {
      const path = [root, ...issue.path.map((step) => shownKey(String(step)))].join('.');
      if (issue.code === 'unrecognized_keys') {
        for (const key of issue.keys) this.add(`${path}.${shownKey(key)}`, unknownField);
      } else if (issue.code === 'invalid_type' && issue.message.endsWith('received undefined')) {
        this.add(path, 'is missing');
      } else {
        this.add(path, issue.message);
      }
    }
  }

  /** Refuses: INVALID_REQUEST, if there was any fault. */
  refuseIfAny(): void {
    if (!this.any) return;
    const more = this.#unlisted === 0 ? '' : ` ${this.#unlisted} more faults are not listed.`;
    throw new Refusal('INVALID_REQUEST', {
      detail: `Nothing was written. Correct the faults and repeat.${more}`,
      faults: [...this.#faults.values()],
    });
  }
}

export const unknownField = 'is not a known field';

/** A caller's own key, fit to be shown in a path: short, and without anything that hides or breaks the line. */
export function shownKey(key: string): string {
  const start = key.slice(0, 2 * maxKeyCharacters).toWellFormed();
  return Array.from(start.replaceAll(/[\p{Cc}\p{Cf}\u2028\u2029]/gu, '?'))
    .slice(0, maxKeyCharacters)
    .join('');
}
