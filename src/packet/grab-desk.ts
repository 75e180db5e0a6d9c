import type { Database } from '../database/database.ts';
import { GrabMemory } from './grab-memory.ts';
import { claimIn, readFinished, type Claim } from './grab.ts';
import { GroupCommit, type GroupLimits, type GroupObserver, type Lot } from './group-commit.ts';
import { grabOf, isPacketId, notFound, type GrabOutcome } from './packet.ts';
import * as sql from './sql.ts';

export interface GrabObserver extends GroupObserver {
  /** Each grab's outcome, or the code of its refusal. */
  outcome?: (outcome: string) => void;
}

/**
 * Where grabs arrive. What is final is answered from memory; the others are grouped into transactions, or,
 * once the packet is finished, into reads that take no lock.
 */
export class GrabDesk {
  readonly #database: Database;
  readonly #observer: GrabObserver;
  readonly #group: GroupCommit<string, GrabOutcome>;
  readonly #memory: GrabMemory;
  readonly #claim: Claim;

  constructor(
    database: Database,
    limits: Partial<GroupLimits> = {},
    observer: GrabObserver = {},
    memory = new GrabMemory(),
    claim: Claim = claimIn(database),
  ) {
    this.#database = database;
    this.#observer = observer;
    this.#memory = memory;
    this.#claim = claim;
    this.#group = new GroupCommit(async (lots) => await this.#runBatch(lots), limits, observer);
  }

  get waiting(): number {
    return this.#group.waiting;
  }

  /** One user's grab of one share. The outcome is committed when this resolves. Refuses with BUSY past a limit. */
  async grab(packetId: string, userId: string): Promise<GrabOutcome> {
    const result = isPacketId(packetId)
      ? (this.#memory.recall(packetId, userId) ?? (await this.#group.submit(packetId, userId)))
      : ({ outcome: 'refused', refusal: notFound() } as const);
    this.#observer.outcome?.(result.outcome === 'refused' ? result.refusal.code : result.outcome);
    return result;
  }

  /** Takes no more grabs and answers those that wait. */
  async close(): Promise<void> {
    await this.#group.close();
  }

  /** Finished packets are read, the others claimed from, at the same time. */
  async #runBatch(lots: readonly Lot<string>[]): Promise<(GrabOutcome[] | null)[]> {
    const ends = lots.map(({ key }) => this.#memory.finished(key));
    const claiming = this.#claimLots(lots.filter((_, index) => ends[index] === null));
    const reading = lots.map(async ({ requests }, index) => {
      const end = ends[index] ?? null;
      if (end === null) return null;
      const read = readFinished(this.#database, end, requests);
      // Beside grabs that are committed, a read that fails must not fail the batch; alone it may.
      return lots.length === 1 ? await read : await read.catch(() => null);
    });
    const [claimed, ...read] = await Promise.all([claiming, ...reading]);
    const rest = claimed.values();
    return read.map((outcomes, index) => (ends[index] === null ? (rest.next().value ?? null) : outcomes));
  }

  async #claimLots(lots: readonly Lot<string>[]): Promise<(GrabOutcome[] | null)[]> {
    if (lots.length === 0) return [];
    const claimed = await this.#claim(
      lots.map(({ key, requests }) => ({ packetId: key, userIds: requests })),
    );
    await Promise.all(
      lots.map(async ({ key }, index) => {
        const outcomes = claimed[index] ?? [];
        this.#memory.learn(key, outcomes);
        await this.#learnEnd(key, outcomes);
      }),
    );
    return claimed;
  }

  /** Learns from a refusal what is final, by reads after the commit. */
  async #learnEnd(packetId: string, outcomes: readonly GrabOutcome[]): Promise<void> {
    const refused = outcomes.find((outcome) => outcome.outcome === 'refused');
    if (refused === undefined) return;
    if (refused.refusal.code === 'NOT_FOUND') {
      this.#memory.learnUnknown(packetId);
      return;
    }
    if (!['SOLD_OUT', 'CLOSED', 'EXPIRED'].includes(refused.refusal.code)) return;
    try {
      const [packet] = await this.#database.rows(sql.findPacket, [packetId]);
      if (packet === undefined || packet.status === 'OPEN') return;
      const rows = this.#memory.wouldHold(packet.claimed_count)
        ? await this.#database.rows(sql.allGrabs, [packetId])
        : null;
      this.#memory.finish(packet, rows?.map((row) => grabOf(packetId, row)) ?? null);
    } catch {
      // Remembering is a saving, not a duty: the committed outcomes are what counts.
    }
  }
}
