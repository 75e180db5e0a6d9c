// npm run bench: compiled, as the service runs in production. From its sources, Node would run all of it a third slower.
// node test/bench/start.mjs FILE …: another program of this folder, such as check-peers.js.
import { existsSync, symlinkSync } from 'node:fs';
import { compile, nodeOptions } from '../../src/build.mjs';
import { ensureDependencies, root } from '../../src/dependencies.mjs';
import { runNode } from '../../src/run-node.mjs';

ensureDependencies();
const folder = `${root}.luckyledger/bench`;
compile('test/bench', folder);
// The schema and the reconciliation files lie beside the sources.
if (!existsSync(`${folder}/db`)) symlinkSync(`${root}db`, `${folder}/db`);
const [file = 'main.js', ...args] = process.argv.slice(2);
runNode([...nodeOptions, `${folder}/test/bench/${file}`, ...args]);
