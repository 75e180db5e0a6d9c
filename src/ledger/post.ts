import { changeOf, rowsOf, type Changed, type Step, type Tx } from '../database/database.ts';
import { netChanges, type Posting } from './ledger.ts';
import * as sql from './sql.ts';

/**
 * Moves money: balances and transfers, in the caller's transaction. The balances first, which lock the accounts in
 * ascending order of id; only then the transfers, so that one account's transfers have ids in order of commit.
 * Who may lack funds must have been checked under a lock before; the CHECK on balances is the last resort.
 */
export async function post(tx: Tx, currency: string, postings: readonly Posting[], at: Date): Promise<void> {
  const rows = postings.map(({ debitAccountId, creditAccountId, amount, reason, reference }) => [
    debitAccountId,
    creditAccountId,
    amount,
    reason,
    reference,
  ]);
  await tx.all(
    balancesStep(netChanges(postings)),
    changeOf(sql.insertTransfers, [currency, at, JSON.stringify(rows)], rows.length),
  );
}

/** Adds to balances. For whoever makes the transfers by another statement; they follow this one. */
export function balancesStep(changes: Iterable<readonly [id: number, delta: number]>): Step<Changed> {
  const effective = [...changes].filter(([, delta]) => delta !== 0).sort(([a], [b]) => a - b);
  return changeOf(sql.addToBalances, [JSON.stringify(effective)], effective.length);
}

/**
 * Opens wallets with what they receive first, which saves them a second statement; their owners had none when the
 * caller looked. Whoever has got one meanwhile receives the amount all the same. In sorted order, so that two
 * callers wait for, not on, each other.
 */
export function openWalletsStep(currency: string, amounts: ReadonlyMap<string, number>): Step<Changed> {
  const owners = [...amounts.keys()].sort();
  return changeOf(sql.openAccounts, [
    owners.map((owner) => [owner, currency, 'wallet', amounts.get(owner) ?? 0]),
  ]);
}

/** The account of an owner, made where missing. Safe under a race: whoever comes second keeps the first one's. */
export async function ensureAccount(
  tx: Tx,
  owner: string,
  currency: string,
  kind: sql.AccountKind,
): Promise<number> {
  const find = rowsOf(sql.findAccountIds, [JSON.stringify([owner]), currency, kind]);
  const [[found]] = await tx.all(find);
  if (found !== undefined) return found.id;
  const [, [made]] = await tx.all(changeOf(sql.openAccounts, [[[owner, currency, kind, 0]]]), find);
  if (made === undefined) throw new Error(`the ${kind} account was not made`);
  return made.id;
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
