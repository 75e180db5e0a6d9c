import type { Database } from '../database/database.ts';
import { claimShares, readFinished } from './grab.ts';
import { GroupCommit, type GroupLimits, type GroupObserver } from './group-commit.ts';
import { isPacketId, notFound, type GrabOutcome } from './packet.ts';
import * as sql from './sql.ts';

/** How long an id that was not found is taken for unknown; a packet made elsewhere meanwhile is found after it. */
const unknownMs = 1_000;
const rememberedPackets = 10_000;

export interface GrabObserver extends GroupObserver {
  /** Each grab's outcome, or the code of its refusal. */
  outcome?: (outcome: string) => void;
}

/**
 * Where grabs arrive. It groups them by packet into transactions, and remembers what is final: that a packet is
 * sold out or refunded (winners' repeats are still answered from the grabs) and, briefly, that an id is unknown.
 */
export class GrabDesk {
  readonly #database: Database;
  readonly #observer: GrabObserver;
  readonly #group: GroupCommit<string, GrabOutcome>;
  readonly #finished = new Map<string, sql.PacketRow>();
  readonly #unknown = new Map<string, number>();

  constructor(database: Database, limits: Partial<GroupLimits> = {}, observer: GrabObserver = {}) {
    this.#database = database;
    this.#observer = observer;
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
    const result: GrabOutcome =
      !isPacketId(packetId) || this.#isUnknown(packetId)
        ? { outcome: 'refused', refusal: notFound() }
        : await this.#group.submit(packetId, userId);
    this.#observer.outcome?.(result.outcome === 'refused' ? result.refusal.code : result.outcome);
    return result;
  }

  /** Takes no more grabs and answers those that wait. */
  async close(): Promise<void> {
    await this.#group.close();
  }

  async #runBatch(packetId: string, users: string[]): Promise<GrabOutcome[]> {
    const finished = this.#finished.get(packetId);
    if (finished !== undefined) return await readFinished(this.#database, finished, users);
    const outcomes = await this.#database.withTransaction(
      'packet.grab',
      async (tx) => await claimShares(tx, packetId, users),
    );
    await this.#remember(packetId, outcomes);
    return outcomes;
  }

  /** Learns from a refusal what is final, by a read after the commit. */
  async #remember(packetId: string, outcomes: readonly GrabOutcome[]): Promise<void> {
    const refused = outcomes.find((outcome) => outcome.outcome === 'refused');
    if (refused === undefined) return;
    if (refused.refusal.code === 'NOT_FOUND') {
      remember(this.#unknown, packetId, performance.now() + unknownMs);
      return;
    }
    if (!['SOLD_OUT', 'CLOSED', 'EXPIRED'].includes(refused.refusal.code)) return;
    try {
      const [packet] = await this.#database.rows(sql.findPacket, [packetId]);
      if (packet !== undefined && packet.status !== 'OPEN') remember(this.#finished, packetId, packet);
    } catch {
      // Remembering is a saving, not a duty: the committed outcomes are what counts.
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

/** Keeps the map within its limit by forgetting the entry that was put in first. */
function remember<Value>(map: Map<string, Value>, key: string, value: Value): void {
  if (map.size >= rememberedPackets) {
    const [oldest] = map.keys();
    if (oldest !== undefined) map.delete(oldest);
  }
  map.set(key, value);
}
