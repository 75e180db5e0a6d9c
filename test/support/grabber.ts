import { Database } from '../../src/database/database.ts';
import { GrabDesk } from '../../src/packet/grab-desk.ts';
import { tally } from './service.ts';

/** A process of its own that grabs: says "ready", waits for a line, grabs for every user at once, prints the tally. */
const { url, packetId, users } = JSON.parse(process.env['GRABBER'] ?? '{}') as {
  url: string;
  packetId: string;
  users: string[];
};
const database = await Database.open(url, { poolSize: 8 });
const desk = new GrabDesk(database);
process.stdout.write('ready\n');
await new Promise<void>((resolve) => {
  process.stdin.once('data', () => resolve());
});
const outcomes = await Promise.all(users.map(async (user) => await desk.grab(packetId, user)));
process.stdout.write(`${JSON.stringify(tally(outcomes))}\n`);
await desk.close();
await database.close();
process.exit(0);
