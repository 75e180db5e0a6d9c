import type { TestBooks } from '../support/service.ts';
import type { LoadPlan } from './load.ts';
import * as ways from './ways.ts';

/** What is asked of every way, and which ways are asked. */
export interface Scenario {
  name: string;
  ways: readonly ways.Way[];
  connections: number;
  mode: LoadPlan['mode'];
  /** The only status that an answer may have; another one means that the figures are worth nothing. */
  status: number;
  /** Makes what the requests go to. The ids, once for each packet, and the paths in the order of the requests. */
  prepare: (books: TestBooks, seconds: number) => Promise<{ packetIds: string[]; paths: string[] }>;
  /** All shares are taken before the load begins. */
  soldOut?: boolean;
}

/** Above what any way here does in a second, so that no packet runs out. */
const fastest = 40_000;
let senders = 0;

export async function packets(books: TestBooks, count: number, shareCount: number): Promise<string[]> {
  senders += 1;
  const senderId = `sender-${senders}`;
  await books.fund(senderId, count * shareCount * 100);
  const ids: string[] = [];
  for (let index = 0; index < count; index += 1)
    ids.push(await books.packet({ senderId, totalAmount: shareCount * 100, shareCount }));
  return ids;
}

function pathOf(id: string): string {
  return `/v1/packets/${id}/grabs`;
}

async function onePacket(books: TestBooks, shareCount: number) {
  const packetIds = await packets(books, 1, shareCount);
  return { packetIds, paths: packetIds.map(pathOf) };
}

/** More shares than any way here can give away in this time. */
async function hotPacket(books: TestBooks, seconds: number) {
  return await onePacket(books, Math.min(1_000_000, fastest * seconds));
}

const hotWays = [
  ways.service,
  ways.redisOnExpress,
  ways.redisOnExpressAlways,
  ways.redisOnLane,
  ways.redisOnLaneAlways,
  ways.oneByOne,
  ways.expressConstant,
  ways.laneConstant,
];

export const scenarios: readonly Scenario[] = [
  {
    name: 'hot packet, 256 connections',
    ways: hotWays,
    connections: 256,
    mode: 'closed',
    status: 201,
    prepare: hotPacket,
  },
  {
    name: 'hot packet, 64 connections',
    ways: [ways.service, ways.redisOnExpress, ways.redisOnLane, ways.expressConstant],
    connections: 64,
    mode: 'closed',
    status: 201,
    prepare: hotPacket,
  },
  {
    name: '1,000 packets at once, 256 connections',
    ways: [ways.service, ways.redisOnExpress, ways.redisOnLane, ways.oneByOne],
    connections: 256,
    mode: 'closed',
    status: 201,
    prepare: async (books, seconds) => {
      const packetIds = await packets(books, 1_000, Math.ceil((fastest / 2 / 1_000) * seconds));
      return { packetIds, paths: packetIds.map(pathOf) };
    },
  },
  {
    name: 'sold-out packet, 256 connections',
    ways: [ways.service, ways.redisOnExpress, ways.redisOnLane],
    connections: 256,
    mode: 'closed',
    status: 410,
    soldOut: true,
    prepare: async (books) => await onePacket(books, 1_000),
  },
  {
    name: 'hot packet, 2,000 requests/s at fixed times',
    ways: [ways.service, ways.redisOnExpress, ways.redisOnLane],
    connections: 256,
    mode: { ratePerSecond: 2_000 },
    status: 201,
    prepare: async (books, seconds) => await onePacket(books, 2_000 * (seconds + 1)),
  },
  {
    name: 'idle packet, 50 requests/s at fixed times',
    ways: [ways.service],
    connections: 16,
    mode: { ratePerSecond: 50 },
    status: 201,
    prepare: async (books, seconds) => await onePacket(books, 50 * (seconds + 1)),
  },
  {
    name: 'packets of 1,000 shares, one after the other, 256 connections',
    ways: [ways.service],
    connections: 256,
    mode: 'closed',
    status: 201,
    prepare: async (books, seconds) => {
      const packetIds = await packets(books, (fastest / 2_000) * seconds, 1_000);
      return {
        packetIds,
        paths: packetIds.flatMap((id) => Array.from({ length: 1_000 }, () => pathOf(id))),
      };
    },
  },
  {
    name: 'packet of 1,000,000 shares, 256 connections',
    ways: [ways.service],
    connections: 256,
    mode: 'closed',
    status: 201,
    prepare: async (books) => await onePacket(books, 1_000_000),
  },
];
