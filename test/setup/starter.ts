import { provideDatabase } from '../../src/setup/provide.ts';

/** Another process that uses the private server of a folder: says where it is, and leaves when its input ends. */
const provided = await provideDatabase(process.argv[2] ?? '', () => {}, { container: false });
process.stdout.write(`${provided.adminUrl}\n`);
process.stdin.resume();
process.stdin.on('end', () => void provided.stop());
