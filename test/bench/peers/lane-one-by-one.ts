import { Database } from '../../../src/database/database.ts';
import { soldOut } from '../../../src/packet/packet.ts';
import { grabbed, serveLane } from './lane.ts';
import { claimers, grabOneByOne } from './one-by-one.ts';

/** One transaction for each grab on this service's own fast lane. DATABASE_URL, PORT, API_KEY. */
await serveLane(async (events) => {
  const limits = { poolSize: claimers, deadlineMs: 60_000, attempts: 50, queueWaitMs: 60_000 };
  const database = await Database.open(process.env['DATABASE_URL'] ?? '', limits, events);
  return {
    grab: async (packetId, userId) => {
      const grab = await grabOneByOne(database, packetId, userId);
      if (grab === null) throw soldOut();
      return grabbed(grab, 'granted');
    },
    close: async () => await database.close(),
  };
});
