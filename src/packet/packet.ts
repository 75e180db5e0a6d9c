import { Refusal } from '../refusal.ts';
import type { GrabRow, PacketRow } from './sql.ts';

/** The rules of a packet's life: pure, no database. Amounts are integers in minor units (fen). */

/** 24 hours. */
export const defaultLifeSeconds = 86_400;
export const maxLifeSeconds = 365 * 86_400;
export const maxShareCount = 1_000_000;

/** 26 characters of Crockford base32: what this service gives out. Anything else is no packet. */
export function isPacketId(text: string): boolean {
  return /^[0-7][0-9A-HJKMNP-TV-Z]{25}$/.test(text);
}

export interface Grab {
  packetId: string;
  userId: string;
  seq: number;
  amount: number;
  grabbedAt: Date;
}

/** A stored grab as the rest of the service knows it. */
export function grabOf(packetId: string, row: GrabRow): Grab {
  return { packetId, userId: row.user_id, seq: row.seq, amount: row.amount, grabbedAt: row.grabbed_at };
}

export type GrabOutcome =
  | (Grab & { outcome: 'granted' | 'already_granted' })
  | { outcome: 'refused'; refusal: Refusal };

/** Why nobody new can get a share at this moment, or null while somebody can. */
export function refusalAt(packet: PacketRow, now: Date): Refusal | null {
  if (packet.status === 'SOLD_OUT') {
    return soldOut();
  }
  if (packet.status === 'REFUNDED' && packet.closed_by_sender === 1) {
    return new Refusal('CLOSED', { detail: 'The sender has closed this packet.' });
  }
  if (packet.status === 'REFUNDED' || now >= packet.expires_at) {
    return new Refusal('EXPIRED', {
      detail: 'This packet has expired.',
      extra: { expiresAt: packet.expires_at.toISOString() },
    });
  }
  if (now < packet.opens_at) {
    const waitMs = packet.opens_at.getTime() - now.getTime();
    return new Refusal('NOT_OPEN_YET', {
      detail: 'This packet is not open yet.',
      retryAfterSeconds: Math.ceil(waitMs / 1000),
      extra: { opensAt: packet.opens_at.toISOString() },
    });
  }
  return null;
}

/** What everybody hears who got nothing of a packet that is sold out or refunded. */
export function finalRefusal(packet: PacketRow): Refusal {
  const refusal = refusalAt(packet, packet.finished_at ?? packet.expires_at);
  if (refusal === null) throw new Error('the packet is not finished');
  return refusal;
}

export function soldOut(): Refusal {
  return new Refusal('SOLD_OUT', { detail: 'All shares of this packet are taken.' });
}

export function notFound(): Refusal {
  return new Refusal('NOT_FOUND', { detail: 'There is no such packet.' });
}

export function notInvited(): Refusal {
  return new Refusal('NOT_INVITED', { detail: 'This packet is for invited users only.' });
}
