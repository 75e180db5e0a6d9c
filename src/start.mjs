// node src/start.mjs COMMAND …: installs what is missing, then runs the command line from its TypeScript source.
// node src/start.mjs --run FILE …: the same for another TypeScript file.
import { spawn } from 'node:child_process';
import { ensureDependencies, root } from './dependencies.mjs';

ensureDependencies();
const [first, ...rest] = process.argv.slice(2);
const program = first === '--run' ? rest : [`${root}src/main.ts`, ...process.argv.slice(2)];
const child = spawn(process.execPath, ['--import', 'tsx', ...program], { stdio: 'inherit', cwd: root });
// Ctrl-C reaches the whole group; a signal sent to this process alone is passed on.
for (const signal of /** @type {const} */ (['SIGINT', 'SIGTERM', 'SIGHUP']))
  process.on(signal, () => child.kill(signal));
child.on('exit', (code, signal) => process.exit(code ?? (signal === null ? 1 : 128)));
