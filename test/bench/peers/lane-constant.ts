import { grabbed, serveLane } from './lane.ts';

/** What the fast lane alone can do: all checks, headers, request lines and metrics of a grab, and a constant answer. PORT, API_KEY. */
await serveLane(async () => {
  const at = new Date('2030-01-31T12:00:00Z');
  return await Promise.resolve({
    grab: async (packetId, userId) =>
      await Promise.resolve(grabbed({ packetId, userId, seq: 1, amount: 100, grabbedAt: at }, 'granted')),
    close: async () => {},
  });
});
