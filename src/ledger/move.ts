import type { Tx } from '../database/database.ts';
import { Refusal } from '../refusal.ts';
import {
  maxAmount,
  mayBeReversed,
  outsideWorld,
  storedReference,
  transferId,
  type TransferReason,
} from './ledger.ts';
import { clockOf, ensureAccount, lockBalances, post } from './post.ts';
import * as sql from './sql.ts';

export interface Transfer {
  /** Opaque. */
  id: string;
  reason: TransferReason;
  reference: string;
  currency: string;
  amount: number;
  createdAt: Date;
}

export interface OutsideMove {
  /** The API client: references are unique per client. */
  clientId: string;
  owner: string;
  currency: string;
  amount: number;
  reference: string;
}

export interface Moved {
  transfer: Transfer;
  /** False when the same reference with the same payload had moved the money before. */
  created: boolean;
}

/**
 * Credits a wallet from the outside world. Locks the outside-world account, then the wallet.
 * Refuses: REFERENCE_REUSED, LIMIT_EXCEEDED (all balances of a currency together stay within 2^53 − 1).
 */
export async function deposit(tx: Tx, move: OutsideMove): Promise<Moved> {
  return await moveAcross(tx, 'deposit', move);
}

/** Debits a wallet to the outside world. Locks as `deposit`. Refuses: REFERENCE_REUSED, INSUFFICIENT_FUNDS. */
export async function withdraw(tx: Tx, move: OutsideMove): Promise<Moved> {
  return await moveAcross(tx, 'withdrawal', move);
}

async function moveAcross(tx: Tx, reason: 'deposit' | 'withdrawal', move: OutsideMove): Promise<Moved> {
  const { owner, currency, amount } = move;
  const reference = storedReference(move.clientId, move.reference);
  const outside = await ensureAccount(tx, outsideWorld, currency, 'system');
  // This lock makes movements of a currency across the border take turns, so what is read below stays true.
  const outsideBalance = (await lockBalances(tx, [outside])).get(outside) ?? 0;
  const [earlier] = await tx.rows(sql.findTransfer, [reason, reference]);
  if (earlier !== undefined) return { transfer: await sameMove(tx, earlier, reason, move), created: false };

  if (reason === 'deposit' && maxAmount + outsideBalance < amount) throw limitExceeded(currency);
  const wallet =
    reason === 'deposit'
      ? await ensureAccount(tx, owner, currency, 'wallet')
      : await knownWallet(tx, owner, currency);
  if (reason === 'withdrawal') await assertFunds(tx, wallet, amount);
  const [debitAccountId, creditAccountId] = reason === 'deposit' ? [outside, wallet] : [wallet, outside];
  const createdAt = await clockOf(tx);
  await post(tx, currency, [{ debitAccountId, creditAccountId, amount, reason, reference }], createdAt);
  return {
    transfer: transferOf({ reason, reference, currency, amount, created_at: createdAt }),
    created: true,
  };
}

/** The earlier transfer under this reference, if it is the same movement. */
async function sameMove(
  tx: Tx,
  earlier: sql.TransferRow,
  reason: 'deposit' | 'withdrawal',
  move: OutsideMove,
): Promise<Transfer> {
  const walletId = reason === 'deposit' ? earlier.credit_account_id : earlier.debit_account_id;
  const [wallet] = await tx.rows(sql.lockAccounts, [[walletId]]);
  if (wallet?.owner === move.owner && earlier.amount === move.amount && earlier.currency === move.currency) {
    return transferOf(earlier);
  }
  throw new Refusal('REFERENCE_REUSED', {
    detail: 'This reference was used for another movement; nothing was moved now. Use a new reference.',
  });
}

/**
 * Moves money between two wallets. Locks both in ascending order of id. A repeat of the same reference returns
 * the first transfer. Refuses: INSUFFICIENT_FUNDS, REFERENCE_REUSED, INVALID_REQUEST (same owner).
 */
export async function transfer(
  tx: Tx,
  move: { clientId: string; from: string; to: string; currency: string; amount: number; reference: string },
): Promise<Moved> {
  if (move.from === move.to) {
    throw new Refusal('INVALID_REQUEST', { faults: [{ path: 'to', message: 'must be another owner' }] });
  }
  const reference = storedReference(move.clientId, move.reference);
  const from = await knownWallet(tx, move.from, move.currency);
  const to = await ensureAccount(tx, move.to, move.currency, 'wallet');
  const balances = await lockBalances(tx, [from, to]);
  const [earlier] = await tx.rows(sql.findTransfer, ['transfer', reference]);
  if (earlier !== undefined) {
    const same =
      earlier.debit_account_id === from && earlier.credit_account_id === to && earlier.amount === move.amount;
    if (same) return { transfer: transferOf(earlier), created: false };
    throw new Refusal('REFERENCE_REUSED', {
      detail: 'This reference was used for another transfer. Use a new one.',
    });
  }
  if ((balances.get(from) ?? 0) < move.amount) throw insufficientFunds();
  const createdAt = await clockOf(tx);
  const posting = {
    debitAccountId: from,
    creditAccountId: to,
    amount: move.amount,
    reason: 'transfer' as const,
    reference,
  };
  await post(tx, move.currency, [posting], createdAt);
  return {
    transfer: transferOf({ ...posting, currency: move.currency, created_at: createdAt }),
    created: true,
  };
}

/**
 * Corrects a transfer by its opposite, once. Locks both accounts in ascending order of id; the unique reference
 * makes a second reversal impossible. Refuses: NOT_FOUND, NOT_REVERSIBLE, ALREADY_REVERSED, INSUFFICIENT_FUNDS,
 * LIMIT_EXCEEDED.
 */
export async function reverse(tx: Tx, original: { reason: string; reference: string }): Promise<Transfer> {
  const [row] = await tx.rows(sql.findTransfer, [original.reason, original.reference]);
  if (row === undefined) throw new Refusal('NOT_FOUND', { detail: 'There is no such transfer.' });
  if (!mayBeReversed(row.reason)) {
    throw new Refusal('NOT_REVERSIBLE', {
      detail: `A transfer of reason "${row.reason}" cannot be reversed.`,
    });
  }
  const accounts = await tx.rows(sql.lockAccounts, [[row.debit_account_id, row.credit_account_id]]);
  const reference = String(row.id);
  const [earlier] = await tx.rows(sql.findTransfer, ['reversal', reference]);
  if (earlier !== undefined)
    throw new Refusal('ALREADY_REVERSED', { detail: 'This transfer is reversed already.' });
  const giver = accounts.find(({ id }) => id === row.credit_account_id);
  if (giver?.kind === 'wallet' && giver.balance < row.amount) throw insufficientFunds();
  if (giver?.kind === 'system' && maxAmount + giver.balance < row.amount) throw limitExceeded(row.currency);
  const createdAt = await clockOf(tx);
  const posting = {
    debitAccountId: row.credit_account_id,
    creditAccountId: row.debit_account_id,
    amount: row.amount,
    reason: 'reversal' as const,
    reference,
  };
  await post(tx, row.currency, [posting], createdAt);
  return transferOf({ ...posting, currency: row.currency, created_at: createdAt });
}

/** Locks a wallet and refuses with INSUFFICIENT_FUNDS when it holds less than `amount`. */
export async function assertFunds(tx: Tx, walletId: number, amount: number): Promise<void> {
  const balance = (await lockBalances(tx, [walletId])).get(walletId) ?? 0;
  if (balance < amount) throw insufficientFunds();
}

/** The wallet of an owner, if it holds this amount at the moment: no lock, so no promise. Refuses: INSUFFICIENT_FUNDS. */
export async function fundedWallet(tx: Tx, owner: string, currency: string, amount: number): Promise<number> {
  const wallet = await walletOf(tx, owner, currency);
  if (wallet.balance < amount) throw insufficientFunds();
  return wallet.id;
}

/** The wallet of an owner; who was never seen has no funds. */
export async function knownWallet(tx: Tx, owner: string, currency: string): Promise<number> {
  return (await walletOf(tx, owner, currency)).id;
}

async function walletOf(tx: Tx, owner: string, currency: string): Promise<sql.AccountRow> {
  const [row] = await tx.rows(sql.findAccounts, [[owner], currency, 'wallet']);
  if (row === undefined) throw insufficientFunds();
  return row;
}

function transferOf(
  row: Pick<sql.TransferRow, 'currency' | 'amount' | 'reason' | 'reference' | 'created_at'>,
): Transfer {
  return {
    id: transferId(row.reason, row.reference, row.created_at),
    reason: row.reason as TransferReason,
    reference: row.reference,
    currency: row.currency,
    amount: row.amount,
    createdAt: row.created_at,
  };
}

function insufficientFunds(): Refusal {
  return new Refusal('INSUFFICIENT_FUNDS', {
    detail: 'The wallet holds less than this amount. Deposit first.',
  });
}

function limitExceeded(currency: string): Refusal {
  return new Refusal('LIMIT_EXCEEDED', {
    detail: `All balances of ${currency} together may not exceed ${maxAmount}, the largest exact amount.`,
  });
}
