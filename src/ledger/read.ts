import type { Db } from '../database/database.ts';
import { shownReference, transferId } from './ledger.ts';
import * as sql from './sql.ts';

/** A wallet's balance in minor units, now or at a past time (transfers up to and including it); 0 for an owner never seen. */
export async function balanceOf(db: Db, owner: string, currency: string, at?: Date): Promise<number> {
  const [account] = await db.rows(sql.findAccounts, [[owner], currency, 'wallet']);
  if (account === undefined) return 0;
  if (at === undefined) return account.balance;
  const [row] = await db.rows(sql.balanceAt, [account.id, at, account.id, at]);
  return row?.balance ?? 0;
}

export interface StatementItem {
  id: string;
  direction: 'in' | 'out';
  amount: number;
  currency: string;
  reason: string;
  reference: string;
  counterparty: { owner: string; kind: sql.AccountKind };
  createdAt: Date;
}

export interface StatementPage {
  items: StatementItem[];
  /** Row id to go on below; null at the end. */
  next: number | null;
}

/** A wallet's transfers, newest first: those below the row id `before`, at most `limit`. */
export async function statementOf(
  db: Db,
  owner: string,
  currency: string,
  page: { before: number; limit: number },
): Promise<StatementPage> {
  const [account] = await db.rows(sql.findAccounts, [[owner], currency, 'wallet']);
  if (account === undefined) return { items: [], next: null };
  const take = page.limit + 1;
  const side = [account.id, currency, page.before, take];
  const rows = await db.rows(sql.statementPage, [...side, ...side, take]);
  const shown = rows.slice(0, page.limit);
  return {
    items: shown.map((row) => ({
      id: transferId(row.reason, row.reference, row.created_at),
      direction: row.credit_account_id === account.id ? 'in' : 'out',
      amount: row.amount,
      currency: row.currency,
      reason: row.reason,
      reference: shownReference(row.reason, row.reference),
      counterparty: { owner: row.other_owner, kind: row.other_kind },
      createdAt: row.created_at,
    })),
    next: rows.length > page.limit ? (shown.at(-1)?.id ?? null) : null,
  };
}
