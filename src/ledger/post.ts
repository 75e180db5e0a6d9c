import { changeOf, rowsOf, type Changed, type Step, type Tx } from '../database/database.ts';
import { netChanges, type Posting } from './ledger.ts';
import * as sql from './sql.ts';

/**
 * Moves money: balances and transfers, in the caller's transaction.
 * Who may lack funds must have been checked under a lock before; the CHECK on balances is the last resort.
 */
export async function post(tx: Tx, currency: string, postings: readonly Posting[], at: Date): Promise<void> {
  await tx.all(...postingSteps(currency, postings, at));
}

/**
 * The two statements that move money, to run in this order: the balances lock the accounts in ascending order of id;
 * only then the transfers are made, so that one account's transfers have ids in order of commit. The balances of
 * the accounts in `opened` hold their part already (see `openWallets`).
 */
export function postingSteps(
  currency: string,
  postings: readonly Posting[],
  at: Date,
  opened: ReadonlySet<number> = new Set(),
): readonly [Step<Changed>, Step<Changed>] {
  const changes = netChanges(postings).filter(([id, delta]) => delta !== 0 && !opened.has(id));
  const rows = postings.map(({ debitAccountId, creditAccountId, amount, reason, reference }) => [
    debitAccountId,
    creditAccountId,
    amount,
    reason,
    reference,
  ]);
  return [
    changeOf(sql.addToBalances, [JSON.stringify(changes)], changes.length),
    changeOf(sql.insertTransfers, [currency, at, JSON.stringify(rows)], rows.length),
  ];
}

/**
 * Opens wallets with what they receive first, which saves them a second statement; their owners had none when the
 * caller looked. Whoever has got one meanwhile receives the amount all the same. In sorted order, so that two
 * callers wait for, not on, each other. The second step tells their ids.
 */
export function openWallets(
  currency: string,
  deltas: ReadonlyMap<string, number>,
): readonly [Step<Changed>, Step<{ id: number; owner: string }[]>] {
  const owners = [...deltas.keys()].sort();
  const rows = owners.map((owner) => [owner, currency, 'wallet', deltas.get(owner) ?? 0]);
  return [
    changeOf(sql.openAccounts, [rows]),
    rowsOf(sql.findAccountIds, [JSON.stringify(owners), currency, 'wallet']),
  ];
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
