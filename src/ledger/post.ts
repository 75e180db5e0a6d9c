import type { Tx } from '../database/database.ts';
import { netChanges, type Posting } from './ledger.ts';
import * as sql from './sql.ts';

/**
 * Moves money: balances and transfers, in the caller's transaction. Balances first, which locks the accounts in
 * ascending order of id; then the transfers, so that one account's transfers have ids in order of commit.
 * Who may lack funds must have been checked under a lock before; the CHECK on balances is the last resort.
 */
export async function post(tx: Tx, currency: string, postings: readonly Posting[], at: Date): Promise<void> {
  const changes = netChanges(postings);
  const { affectedRows } = await tx.change(sql.addToBalances, [JSON.stringify(changes)]);
  const effective = changes.filter(([, delta]) => delta !== 0).length;
  if (affectedRows !== effective) throw new Error(`${affectedRows} of ${effective} balances changed`);
  // As text once, not as a Date for each row: formatting 256 dates cost the process more than all else in the batch.
  const time = at.toISOString().slice(0, 23).replace('T', ' ');
  const rows = postings.map((posting) => [
    posting.debitAccountId,
    posting.creditAccountId,
    currency,
    posting.amount,
    posting.reason,
    posting.reference,
    time,
  ]);
  await tx.change(sql.insertTransfers, [rows]);
}

/**
 * The ids of these owners' accounts, made where missing. Safe under a race: whoever comes second keeps the first
 * one's account. Owners are inserted in sorted order, so that two callers wait for, not on, each other.
 */
export async function ensureAccounts(
  tx: Tx,
  owners: readonly string[],
  currency: string,
  kind: sql.AccountKind,
): Promise<Map<string, number>> {
  const found = new Map<string, number>();
  const find = async (wanted: readonly string[]): Promise<void> => {
    const rows = await tx.rows(sql.findAccountIds, [wanted, currency, kind]);
    for (const { id, owner } of rows) found.set(owner, id);
  };
  await find(owners);
  const missing = owners.filter((owner) => !found.has(owner)).sort();
  if (missing.length === 0) return found;
  await tx.change(sql.insertAccounts, [missing.map((owner) => [owner, currency, kind])]);
  await find(missing);
  return found;
}

/** The one account of an owner, made where missing. */
export async function ensureAccount(
  tx: Tx,
  owner: string,
  currency: string,
  kind: sql.AccountKind,
): Promise<number> {
  const id = (await ensureAccounts(tx, [owner], currency, kind)).get(owner);
  if (id === undefined) throw new Error(`the ${kind} account was not made`);
  return id;
}

/** Locks these accounts in ascending order of id and tells their balances. */
export async function lockBalances(tx: Tx, ids: readonly number[]): Promise<Map<number, number>> {
  const rows = await tx.rows(sql.lockAccounts, [ids]);
  return new Map(rows.map((row) => [row.id, row.balance]));
}

/** The database's clock, read in the transaction. */
export async function clockOf(tx: Tx): Promise<Date> {
  const [row] = await tx.rows(sql.clock);
  if (row === undefined) throw new Error('the database did not tell its time');
  return row.now;
}
