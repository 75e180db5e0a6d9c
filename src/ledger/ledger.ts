import { createHash } from 'node:crypto';

/** The rules of the ledger: pure, no database. Amounts and balances are integers in minor units (fen). */

/** The largest amount and balance: every integer up to it is exact in JSON and in JavaScript. */
export const maxAmount = Number.MAX_SAFE_INTEGER;

/** The `system` account that deposits come from and withdrawals go to. */
export const outsideWorld = 'outside-world';

export type TransferReason = 'deposit' | 'withdrawal' | 'fund' | 'grab' | 'refund' | 'transfer' | 'reversal';

/**
 * Packets must stay whole, so money that a packet moved cannot be reversed by hand; nor can a reversal, or a
 * correction would never end.
 */
export function mayBeReversed(reason: string): boolean {
  return reason === 'deposit' || reason === 'withdrawal' || reason === 'transfer';
}

export interface Posting {
  debitAccountId: number;
  creditAccountId: number;
  amount: number;
  reason: TransferReason;
  /** Unique within its reason: what makes a second posting of the same cause impossible. */
  reference: string;
}

/** The net change of each account, in ascending order of id: the order in which accounts are locked. */
export function netChanges(postings: readonly Posting[]): [id: number, delta: number][] {
  const changes = new Map<number, number>();
  const add = (id: number, delta: number): void => {
    changes.set(id, (changes.get(id) ?? 0) + delta);
  };
  for (const { debitAccountId, creditAccountId, amount } of postings) {
    if (!Number.isSafeInteger(amount) || amount < 1) throw new Error(`a posting of ${amount}`);
    add(debitAccountId, -amount);
    add(creditAccountId, amount);
  }
  return [...changes].sort(([a], [b]) => a - b);
}

/**
 * The public id of a transfer: opaque, and in order of time. Auditors find the row by its reason and reference,
 * so the id need not be stored.
 */
export function transferId(reason: string, reference: string, createdAt: Date): string {
  const time = createdAt.getTime().toString(16).padStart(12, '0');
  return `${time}${createHash('sha256').update(`${reason}:${reference}`).digest('hex').slice(0, 20)}`;
}

/** A client's reference as the ledger stores it: unique over all clients. */
export function storedReference(clientId: string, reference: string): string {
  return `${clientId.replaceAll(':', '%3A')}:${reference}`;
}

/** What callers are shown of a stored reference: their own words, without the client that the ledger puts before them. */
export function shownReference(reason: string, stored: string): string {
  const hasClient = reason === 'deposit' || reason === 'withdrawal' || reason === 'transfer';
  return hasClient ? stored.slice(stored.indexOf(':') + 1) : stored;
}
