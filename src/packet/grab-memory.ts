import type { Refusal } from '../refusal.ts';
import { finalRefusal, notFound, type Grab, type GrabOutcome } from './packet.ts';
import type { PacketRow } from './sql.ts';

export interface MemoryLimits {
  /** Packets that something is remembered of. */
  packets: number;
  /** Grabs in all, about 150 bytes each. */
  grabs: number;
  /** Grabs of one packet. */
  grabsOfPacket: number;
  /** How long an id that was not found is taken for unknown; a packet made elsewhere meanwhile is found after it. */
  unknownMs: number;
}

export const defaultMemoryLimits: MemoryLimits = {
  packets: 10_000,
  grabs: 200_000,
  grabsOfPacket: 50_000,
  unknownMs: 1_000,
};

interface Remembered {
  grabs: Map<string, Grab>;
  /** Once it is sold out or refunded: how it ended. */
  end: { packet: PacketRow; refusal: Refusal } | null;
  /** Whether `grabs` are all that there are, so that whoever is not among them got nothing. */
  complete: boolean;
}

/**
 * What a process remembers of packets, and answers without asking the database: only what can never change. A committed grab
 * is never updated or deleted; sold out and refunded are final; an unknown id is unknown for a moment only. So it
 * never turns a winner away, and forgetting costs a read.
 */
export class GrabMemory {
  readonly #limits: MemoryLimits;
  readonly #packets = new Map<string, Remembered>();
  readonly #unknown = new Map<string, number>();
  #grabCount = 0;

  constructor(limits: Partial<MemoryLimits> = {}) {
    this.#limits = { ...defaultMemoryLimits, ...limits };
  }

  /** The answer to this user, if it is known already. */
  recall(packetId: string, userId: string): GrabOutcome | null {
    const known = this.#packets.get(packetId);
    if (known === undefined) return this.#isUnknown(packetId) ? refused(notFound()) : null;
    const grab = known.grabs.get(userId);
    if (grab !== undefined) return { outcome: 'already_granted', ...grab };
    return known.complete && known.end !== null ? refused(known.end.refusal) : null;
  }

  /** A packet that is known to be finished; what its users have may have to be read. */
  finished(packetId: string): PacketRow | null {
    return this.#packets.get(packetId)?.end?.packet ?? null;
  }

  /** Remembers grabs of one packet, which must be committed. */
  learn(packetId: string, outcomes: readonly GrabOutcome[]): void {
    const room = this.#limits.grabsOfPacket - (this.#packets.get(packetId)?.grabs.size ?? 0);
    const grabs = outcomes.filter((outcome) => outcome.outcome !== 'refused').slice(0, Math.max(0, room));
    if (grabs.length === 0) return;
    const known = this.#packet(packetId);
    for (const { userId, seq, amount, grabbedAt } of grabs) {
      if (known.grabs.has(userId)) continue;
      known.grabs.set(userId, { packetId, userId, seq, amount, grabbedAt });
      this.#grabCount += 1;
    }
    this.#forgetOldest(packetId);
  }

  /** Remembers how a packet ended, and all its grabs if they are given and not too many. */
  finish(packet: PacketRow, grabs: readonly Grab[] | null): void {
    const known = this.#packet(packet.id);
    known.end = { packet, refusal: finalRefusal(packet) };
    this.#forgetOldest(packet.id);
    if (grabs === null) return;
    this.learn(
      packet.id,
      grabs.map((grab) => ({ outcome: 'already_granted', ...grab })),
    );
    known.complete = known.grabs.size === packet.claimed_count;
  }

  /** Whether all grabs of a packet of this size would be remembered. */
  wouldHold(grabCount: number): boolean {
    return grabCount <= this.#limits.grabsOfPacket;
  }

  learnUnknown(packetId: string): void {
    keepWithin(this.#unknown, this.#limits.packets);
    this.#unknown.set(packetId, performance.now() + this.#limits.unknownMs);
  }

  #packet(packetId: string): Remembered {
    const known = this.#packets.get(packetId);
    if (known !== undefined) return known;
    const fresh: Remembered = { grabs: new Map(), end: null, complete: false };
    this.#packets.set(packetId, fresh);
    return fresh;
  }

  /** The packets that were learnt of first go first; the one at hand stays. */
  #forgetOldest(exceptId: string): void {
    for (const [id, { grabs }] of this.#packets) {
      if (this.#packets.size <= this.#limits.packets && this.#grabCount <= this.#limits.grabs) return;
      if (id === exceptId) continue;
      this.#packets.delete(id);
      this.#grabCount -= grabs.size;
    }
  }

  #isUnknown(packetId: string): boolean {
    const until = this.#unknown.get(packetId);
    if (until === undefined) return false;
    if (performance.now() < until) return true;
    this.#unknown.delete(packetId);
    return false;
  }
}

function refused(refusal: Refusal): GrabOutcome {
  return { outcome: 'refused', refusal };
}

function keepWithin(map: Map<string, unknown>, limit: number): void {
  if (map.size < limit) return;
  const [oldest] = map.keys();
  if (oldest !== undefined) map.delete(oldest);
}
