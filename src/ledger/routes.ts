import { z } from 'zod';
import type { Database, Tx } from '../database/database.ts';
import { defineRoute, type Route } from '../http/route.ts';
import {
  amount,
  currency,
  cursor,
  foreignCursor,
  isoTime,
  limit,
  listOf,
  reference,
  time,
  userId,
} from '../http/schemas.ts';
import { once } from '../idempotency/once.ts';
import { deposit, withdraw, type Moved, type OutsideMove, type Transfer } from './move.ts';
import { balanceOf, statementOf } from './read.ts';

const params = z.strictObject({ owner: userId });
const moveBody = z.strictObject({ amount, currency, reference });

const transferAnswer = z.strictObject({
  id: z.string(),
  owner: z.string(),
  currency: z.string(),
  amount: z.int().describe('minor units'),
  reason: z.string(),
  reference: z.string(),
  createdAt: time,
});

/** The calls on accounts. */
export function ledgerRoutes({ database }: { database: Database }): Route[] {
  return [
    moveRoute(database, 'deposit', 'Credit a wallet from outside', deposit),
    moveRoute(database, 'withdrawal', 'Pay out from a wallet to outside', withdraw),
    defineRoute({
      name: 'getAccount',
      method: 'GET',
      path: '/v1/accounts/{owner}',
      summary: 'A wallet: its balance now, or at a past time',
      scopes: ['accounts:read'],
      participant: (user, { params: { owner } }) => owner === user,
      params,
      query: z.strictObject({ currency, at: isoTime.optional() }),
      success: {
        200: z.strictObject({
          owner: z.string(),
          currency: z.string(),
          balance: z.int(),
          at: time.optional(),
        }),
      },
      refusals: [],
      handler: async ({ params: { owner }, query }) => {
        const balance = await balanceOf(database, owner, query.currency, query.at);
        const at = query.at === undefined ? {} : { at: query.at.toISOString() };
        return { status: 200, body: { owner, currency: query.currency, balance, ...at } };
      },
    }),
    defineRoute({
      name: 'listTransfers',
      method: 'GET',
      path: '/v1/accounts/{owner}/transfers',
      summary: "A wallet's statement, newest first",
      scopes: ['accounts:read'],
      participant: (user, { params: { owner } }) => owner === user,
      params,
      query: z.strictObject({ currency, cursor: cursor.optional(), limit }),
      success: {
        200: listOf(
          z.strictObject({
            id: z.string(),
            direction: z.enum(['in', 'out']),
            amount: z.int(),
            currency: z.string(),
            reason: z.string(),
            reference: z.string(),
            counterparty: z.strictObject({ owner: z.string(), kind: z.enum(['wallet', 'escrow', 'system']) }),
            createdAt: time,
          }),
        ),
      },
      refusals: [],
      handler: async ({ params: { owner }, query }) => {
        const before = rowIdOf(query.cursor);
        const { items, next } = await statementOf(database, owner, query.currency, {
          before,
          limit: query.limit,
        });
        return {
          status: 200,
          body: {
            items: items.map((item) => ({ ...item, createdAt: item.createdAt.toISOString() })),
            nextCursor: next === null ? null : Buffer.from(String(next)).toString('base64url'),
          },
        };
      },
    }),
  ];
}

/** Deposits and withdrawals differ in direction only. */
function moveRoute(
  database: Database,
  kind: 'deposit' | 'withdrawal',
  summary: string,
  move: (tx: Tx, input: OutsideMove) => Promise<Moved>,
): Route {
  return defineRoute({
    name: kind,
    method: 'POST',
    path: `/v1/accounts/{owner}/${kind}s`,
    summary,
    scopes: ['accounts:write'],
    params,
    body: moveBody,
    success: { 201: transferAnswer, 200: transferAnswer },
    refusals: ['REFERENCE_REUSED', kind === 'deposit' ? 'LIMIT_EXCEEDED' : 'INSUFFICIENT_FUNDS'],
    idempotencyKey: 'required',
    handler: async ({ params: { owner }, body, principal, idempotency }) => {
      if (idempotency === null) throw new Error('the route demands an idempotency key');
      return await once(database, `ledger.${kind}`, idempotency, async (tx) => {
        const { transfer, created } = await move(tx, { clientId: principal.clientId, owner, ...body });
        return { status: created ? 201 : 200, body: transferBody(transfer, owner, body.reference) };
      });
    },
  });
}

/** The caller sees its own reference, not the one that the ledger keeps unique over all clients. */
function transferBody(
  transfer: Transfer,
  owner: string,
  ownReference: string,
): z.output<typeof transferAnswer> {
  const { id, currency: code, amount: fen, reason, createdAt } = transfer;
  return {
    id,
    owner,
    currency: code,
    amount: fen,
    reason,
    reference: ownReference,
    createdAt: createdAt.toISOString(),
  };
}

function rowIdOf(text: string | undefined): number {
  if (text === undefined) return Number.MAX_SAFE_INTEGER;
  const id = Buffer.from(text, 'base64url').toString();
  if (/^\d{1,15}$/.test(id)) return Number(id);
  throw foreignCursor();
}
