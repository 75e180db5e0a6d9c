import type { Database } from '../database/database.ts';
import { GrabMemory } from './grab-memory.ts';
import { claimIn, readFinished, type Claim } from './grab.ts';
import { GroupCommit, type GroupLimits, type GroupObserver } from './group-commit.ts';
import { grabOf, isPacketId, notFound, type GrabOutcome } from './packet.ts';
import * as sql from './sql.ts';

export interface GrabObserver extends GroupObserver {
  /** Each grab's outcome, or the code of its refusal. */
  outcome?: (outcome: string) => void;
}

/**
 * Where grabs arrive. What is final is answered from memory; the others are grouped by packet into transactions, or,
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
    this.#group = new GroupCommit(
      async (packetId, users) => await this.#runBatch(packetId, users),
      limits,
      observer,
    );
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

  async #runBatch(packetId: string, users: string[]): Promise<GrabOutcome[]> {
    const finished = this.#memory.finished(packetId);
    if (finished !== null) return await readFinished(this.#database, finished, users);
    const outcomes = await this.#claim(packetId, users);
    this.#memory.learn(packetId, outcomes);
    await this.#learnEnd(packetId, outcomes);
    return outcomes;
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
