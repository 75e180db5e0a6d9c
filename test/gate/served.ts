import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { rootKey } from '../support/api.ts';
import type { TestBooks } from '../support/service.ts';

/** The service in a process of its own, as `serve` starts it. */
export class ServedProcess {
  readonly address: string;
  /** What it logged: the JSON lines of its standard output. */
  readonly lines: Record<string, unknown>[];
  readonly #child: ChildProcess;

  private constructor(child: ChildProcess, address: string, lines: Record<string, unknown>[]) {
    this.#child = child;
    this.address = address;
    this.lines = lines;
  }

  static async start(books: TestBooks, environment: Record<string, string>): Promise<ServedProcess> {
    const main = new URL('../../dist/main.js', import.meta.url).pathname;
    const child = spawn(process.execPath, [main, 'serve'], {
      env: {
        ...process.env,
        DATABASE_URL: books.url,
        MIGRATE_DATABASE_URL: books.adminUrl,
        API_KEY: rootKey,
        TOKEN_SECRET: 'a secret for tests only',
        HOST: '127.0.0.1',
        PORT: '0',
        WORKERS: '1',
        ...environment,
      },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    process.once('exit', () => child.kill('SIGKILL'));
    const lines: Record<string, unknown>[] = [];
    createInterface({ input: child.stdout }).on('line', (line) => {
      lines.push(JSON.parse(line) as Record<string, unknown>);
    });
    const address = await new Promise<string>((resolve, reject) => {
      let said = '';
      child.once('exit', (code) => reject(new Error(`the service ended with ${code}: ${said}`)));
      createInterface({ input: child.stderr }).on('line', (line) => {
        said += `${line}\n`;
        const found = /serves on (\S+)/.exec(line)?.[1];
        if (found !== undefined) resolve(found);
      });
    });
    return new ServedProcess(child, address, lines);
  }

  async end(signal: 'SIGTERM' | 'SIGKILL'): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const exit = once(this.#child, 'exit');
    this.#child.kill(signal);
    await exit;
  }
}
