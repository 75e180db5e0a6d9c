// node src/start.mjs COMMAND …: installs and compiles what is missing, then runs the command line.
import { ensureBuilt, nodeOptions } from './build.mjs';
import { ensureDependencies, root } from './dependencies.mjs';
import { runNode } from './run-node.mjs';

ensureDependencies();
ensureBuilt();
runNode([...nodeOptions, `${root}dist/main.js`, ...process.argv.slice(2)]);
