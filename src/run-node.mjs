import { spawn } from 'node:child_process';
import { constants } from 'node:os';
import { root } from './dependencies.mjs';

/**
 * Runs Node in this process's place: same terminal, same signals, same exit code.
 * @param {string[]} args
 */
export function runNode(args) {
  const child = spawn(process.execPath, args, { stdio: 'inherit', cwd: root });
  // Ctrl-C reaches the whole group; a signal sent to this process alone is passed on.
  for (const signal of /** @type {const} */ (['SIGINT', 'SIGTERM', 'SIGHUP']))
    process.on(signal, () => child.kill(signal));
  child.on('error', (error) => {
    console.error(`Node.js could not be run: ${error.message}`);
    process.exit(1);
  });
  // A shell, too, tells of a signal by 128 and its number.
  child.on('exit', (code, signal) =>
    process.exit(code ?? 128 + (signal === null ? 0 : constants.signals[signal])),
  );
}
