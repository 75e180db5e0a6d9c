import { z } from 'zod';
import { time } from '../http/schemas.ts';
import type { Grab, GrabOutcome } from './packet.ts';
import type { PacketView } from './read.ts';
import type { PacketRow } from './sql.ts';

/** What the calls on packets answer: the schemas, and how rows become them. */

export const split = z.enum(['double-mean', 'line-cut', 'equal']);

export const grabFields = {
  packetId: z.string(),
  userId: z.string(),
  seq: z.int().describe('1 for the first share that was claimed'),
  amount: z.int().describe('minor units'),
  grabbedAt: time,
};

export const grabAnswer = z.strictObject({ ...grabFields, outcome: z.enum(['granted', 'already_granted']) });

export const packetFields = {
  id: z.string(),
  status: z.enum(['OPEN', 'SOLD_OUT', 'REFUNDED']),
  senderId: z.string(),
  currency: z.string(),
  totalAmount: z.int(),
  shareCount: z.int(),
  claimedCount: z.int(),
  claimedAmount: z.int(),
  remainingCount: z.int(),
  remainingAmount: z.int(),
  split,
  minShare: z.int(),
  maxShare: z.int().nullable(),
  greeting: z.string().nullable(),
  invitedOnly: z.boolean(),
  createdAt: time,
  opensAt: time,
  expiresAt: time,
  finishedAt: time.nullable(),
  closedBySender: z.boolean(),
  commitment: z.string().describe('hex SHA-256 of the seed followed by the packet id; see the proof'),
};

export const packetAnswer = z.strictObject({
  ...packetFields,
  luckiest: z
    .strictObject(grabFields)
    .nullable()
    .optional()
    .describe('the largest grab, the earliest on a tie; once the packet is finished'),
});

export function resultBody(
  user: string,
  result: GrabOutcome,
): { userId: string; outcome: GrabOutcome['outcome']; seq?: number; amount?: number; code?: string } {
  if (result.outcome === 'refused') return { userId: user, outcome: 'refused', code: result.refusal.code };
  return { userId: user, outcome: result.outcome, seq: result.seq, amount: result.amount };
}

export function grabBody(grab: Grab): {
  packetId: string;
  userId: string;
  seq: number;
  amount: number;
  grabbedAt: string;
} {
  const { packetId: packet, userId: user, seq, amount: fen, grabbedAt } = grab;
  return { packetId: packet, userId: user, seq, amount: fen, grabbedAt: grabbedAt.toISOString() };
}

export function packetBody(packet: PacketRow): z.output<z.ZodObject<typeof packetFields>> {
  return {
    id: packet.id,
    status: packet.status,
    senderId: packet.sender_id,
    currency: packet.currency,
    totalAmount: packet.total_amount,
    shareCount: packet.share_count,
    claimedCount: packet.claimed_count,
    claimedAmount: packet.claimed_amount,
    remainingCount: packet.share_count - packet.claimed_count,
    remainingAmount: packet.total_amount - packet.claimed_amount,
    split: packet.split,
    minShare: packet.min_share,
    maxShare: packet.max_share,
    greeting: packet.greeting,
    invitedOnly: packet.invited_only === 1,
    createdAt: packet.created_at.toISOString(),
    opensAt: packet.opens_at.toISOString(),
    expiresAt: packet.expires_at.toISOString(),
    finishedAt: packet.finished_at?.toISOString() ?? null,
    closedBySender: packet.closed_by_sender === 1,
    commitment: packet.commitment,
  };
}

/** The packet with its luckiest grab, once it is finished. */
export function packetViewBody({ packet, luckiest }: PacketView): z.output<typeof packetAnswer> {
  const shown = luckiest === null ? null : grabBody(luckiest);
  return { ...packetBody(packet), ...(packet.status === 'OPEN' ? {} : { luckiest: shown }) };
}
