import { randomBytes } from 'node:crypto';
import { mkdirSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { createFile, readIfThere } from './files.ts';
import { isAlive, self, type ProcessId } from './process.ts';

/**
 * Who uses a private database: one file for each use, in the folder `users`. The last one to leave ends the server,
 * whoever started it: a command that started it must not take it away from a service that came later, and a server
 * whose users were all killed is ended by the next one that leaves. Call these under the folder's lock.
 */
export class Users {
  readonly #folder: string;

  constructor(home: string) {
    this.#folder = join(home, 'users');
    mkdirSync(this.#folder, { recursive: true, mode: 0o755 });
  }

  /** Writes down a use by this process; returns its name, for `leave`. */
  enter(): string {
    const name = randomBytes(6).toString('hex');
    createFile(join(this.#folder, name), JSON.stringify(self()));
    return name;
  }

  /** Ends a use; true if it was the last one. A use that was dropped before ends nothing. */
  leave(name: string): boolean {
    const path = join(this.#folder, name);
    if (readIfThere(path) === null) return false;
    rmSync(path, { force: true });
    return this.#living().length === 0;
  }

  /** Forgets this process's uses: the server that they meant has died. */
  dropOwn(): void {
    for (const { name, pid } of this.#living()) {
      if (pid === process.pid) rmSync(join(this.#folder, name), { force: true });
    }
  }

  #living(): (ProcessId & { name: string })[] {
    return readdirSync(this.#folder).flatMap((name) => {
      const text = readIfThere(join(this.#folder, name));
      // A draft of `enter` in another process has another form of name.
      if (text === null || name.includes('.')) return [];
      const user = JSON.parse(text) as ProcessId;
      if (isAlive(user)) return [{ ...user, name }];
      rmSync(join(this.#folder, name), { force: true });
      return [];
    });
  }
}
