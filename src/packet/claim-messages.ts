import { Refusal, type RefusalCode, type RefusalDetails } from '../refusal.ts';
import type { PacketLot } from './grab.ts';
import type { GrabOutcome } from './packet.ts';

/** What the thread of the grabs and the one that serves HTTP tell each other. Plain data: it is copied between them. */

export interface ThreadData {
  databaseUrl: string;
  poolSize: number;
}

export type ToThread =
  | { kind: 'claim'; id: number; lots: readonly PacketLot[] }
  | { kind: 'close'; deadlineMs: number };

export type FromThread =
  | { kind: 'ready' }
  | { kind: 'claimed'; id: number; packed: PackedOutcomes }
  | { kind: 'refused'; id: number; code: RefusalCode; details: RefusalDetails }
  /** Only what may be logged: see `scrubbed`. */
  | { kind: 'failed'; id: number; fields: Record<string, unknown> }
  | { kind: 'retried'; unit: string; cause: string }
  | { kind: 'finished'; unit: string; seconds: number; outcome: 'committed' | 'rolled_back' };

/** Outcomes in columns: copying few flat lists costs a tenth of copying as many objects as there are users. */
export interface PackedOutcomes {
  /** For each lot: how many outcomes it has, or null for a lot that was left out. */
  sizes: (number | null)[];
  /** For each user: 0 granted, 1 already granted, else 2 + an index into `refusals`. */
  kinds: number[];
  /** Of the grabs among them, in order. */
  users: string[];
  seqs: number[];
  amounts: number[];
  times: number[];
  refusals: { code: RefusalCode; details: RefusalDetails }[];
}

export function packOutcomes(lots: readonly (readonly GrabOutcome[] | null)[]): PackedOutcomes {
  const packed: PackedOutcomes = {
    sizes: lots.map((outcomes) => outcomes?.length ?? null),
    kinds: [],
    users: [],
    seqs: [],
    amounts: [],
    times: [],
    refusals: [],
  };
  const known = new Map<Refusal, number>();
  for (const outcomes of lots) for (const outcome of outcomes ?? []) pack(packed, known, outcome);
  return packed;
}

function pack(packed: PackedOutcomes, known: Map<Refusal, number>, outcome: GrabOutcome): void {
  if (outcome.outcome === 'refused') {
    const { refusal } = outcome;
    const kind = known.get(refusal) ?? 2 + packed.refusals.length;
    if (!known.has(refusal)) {
      known.set(refusal, kind);
      packed.refusals.push({ code: refusal.code, details: detailsOf(refusal) });
    }
    packed.kinds.push(kind);
  } else {
    packed.kinds.push(outcome.outcome === 'granted' ? 0 : 1);
    packed.users.push(outcome.userId);
    packed.seqs.push(outcome.seq);
    packed.amounts.push(outcome.amount);
    packed.times.push(outcome.grabbedAt.getTime());
  }
}

/** The outcomes again, of lots of these packets. */
export function unpackOutcomes(
  packetIds: readonly string[],
  packed: PackedOutcomes,
): (GrabOutcome[] | null)[] {
  const refusals = packed.refusals.map(({ code, details }) => new Refusal(code, details));
  let nextKind = 0;
  let nextGrab = 0;
  return packed.sizes.map((size, lot) => {
    if (size === null) return null;
    const kinds = packed.kinds.slice(nextKind, nextKind + size);
    nextKind += size;
    return kinds.map((kind): GrabOutcome => {
      if (kind >= 2) return { outcome: 'refused', refusal: refusals[kind - 2] as Refusal };
      const index = nextGrab;
      nextGrab += 1;
      return {
        outcome: kind === 0 ? 'granted' : 'already_granted',
        packetId: packetIds[lot] as string,
        userId: packed.users[index] as string,
        seq: packed.seqs[index] as number,
        amount: packed.amounts[index] as number,
        grabbedAt: new Date(packed.times[index] as number),
      };
    });
  });
}

/** A refusal's own words, without its cause, which stays where it happened. */
export function detailsOf(refusal: Refusal): RefusalDetails {
  return {
    ...(refusal.detail === undefined ? {} : { detail: refusal.detail }),
    ...(refusal.retryAfterSeconds === undefined ? {} : { retryAfterSeconds: refusal.retryAfterSeconds }),
    faults: refusal.faults,
    extra: refusal.extra,
  };
}

/** An error again, of what `scrubbed` kept of it: to be logged as if it had happened on this thread. */
export function unpackError(fields: Readonly<Record<string, unknown>>): Error {
  const { message, stack, errno, errorCode } = fields;
  const error = new Error(typeof message === 'string' ? message : 'a grab failed');
  if (Array.isArray(stack)) error.stack = `${error.message}\n    ${stack.join('\n    ')}`;
  return Object.assign(error, {
    ...(errno === undefined ? {} : { errno }),
    ...(errorCode === undefined ? {} : { code: errorCode }),
  });
}
