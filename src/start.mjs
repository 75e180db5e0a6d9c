// node src/start.mjs COMMAND …: installs what is missing, then runs the command line from its TypeScript source.
// node src/start.mjs --run FILE …: the same for another TypeScript file.
import { spawn } from 'node:child_process';
import { constants } from 'node:os';
import { ensureDependencies, root } from './dependencies.mjs';

ensureDependencies();
const [first, ...rest] = process.argv.slice(2);
const program = first === '--run' ? rest : [`${root}src/main.ts`, ...process.argv.slice(2)];
if (program.length === 0) {
  console.error('Usage: node src/start.mjs COMMAND …, or --run FILE …');
  process.exit(2);
}
const child = spawn(process.execPath, ['--import', 'tsx', ...program], { stdio: 'inherit', cwd: root });
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
