import { soldOut } from '../../../src/packet/packet.ts';
import { grabbed, serveLane } from './lane.ts';
import { RedisFirst } from './redis-first.ts';

/** The Redis-first peer's store on this service's own fast lane. REDIS_URL, PORT, API_KEY. */
await serveLane(async () => {
  const store = await RedisFirst.open(process.env['REDIS_URL'] ?? '');
  return {
    grab: async (packetId, userId) => {
      const result = await store.grab(packetId, userId);
      if (result.outcome === 'sold_out') throw soldOut();
      return grabbed(result, result.outcome);
    },
    close: async () => await store.close(),
  };
});
