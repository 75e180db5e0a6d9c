import { z } from 'zod';
import type { Database } from '../database/database.ts';
import { passGate, type Gate } from '../gate/gate.ts';
import { defineRoute, type Principal, type Route } from '../http/route.ts';
import {
  amount,
  currency,
  cursor,
  foreignCursor,
  isoTime,
  limit,
  listOf,
  packetId,
  plainText,
  userId,
} from '../http/schemas.ts';
import { Refusal } from '../refusal.ts';
import {
  grabAnswer,
  grabBody,
  grabFields,
  packetAnswer,
  packetBody,
  packetFields,
  packetViewBody,
  resultBody,
  split,
} from './answers.ts';
import { createPacket, type CreateHooks } from './create.ts';
import type { GrabDesk } from './grab-desk.ts';
import { isPacketId, maxLifeSeconds, maxShareCount, type GrabOutcome } from './packet.ts';
import { listGrabs, listPacketsOf, proofOf, readPacket, viewOf } from './read.ts';
import { closePacket } from './refund.ts';

const newPacket = z.strictObject({
  senderId: userId,
  totalAmount: amount,
  shareCount: z.int().min(1).max(maxShareCount),
  split: split.default('double-mean'),
  minShare: amount.default(1),
  maxShare: amount.optional(),
  currency,
  opensAt: isoTime.optional(),
  expiresInSeconds: z
    .int()
    .min(1)
    .max(maxLifeSeconds)
    .optional()
    .describe('counted from opensAt; 24 hours if left out'),
  greeting: plainText(200).optional(),
  audience: z.array(userId).min(1).max(10_000).optional().describe('only these users may grab'),
});

export interface PacketDeps {
  database: Database;
  desk: GrabDesk;
  /** Null, or left out: there is none. */
  gate?: Gate | null;
  createHooks?: CreateHooks;
  /** Hears of an unexpected failure of one user's grab in a batch. */
  grabFailed: (error: unknown) => void;
}

/** The calls on red packets. */
export function packetRoutes(deps: PacketDeps): Route[] {
  return [...packetWrites(deps), ...grabCalls(deps), ...packetReads(deps)];
}

function packetWrites({ database, createHooks = {} }: PacketDeps): Route[] {
  return [
    defineRoute({
      name: 'createPacket',
      method: 'POST',
      path: '/v1/packets',
      summary: 'Send a red packet: split the total into shares and set the money aside',
      scopes: ['packets:write'],
      participant: (user, { body }) => body.senderId === user,
      body: newPacket,
      success: { 201: packetAnswer },
      refusals: ['INSUFFICIENT_FUNDS', 'SPLIT_REJECTED'],
      idempotencyKey: 'required',
      handler: async ({ body, principal, idempotency }) => {
        if (idempotency === null) throw new Error('the route demands an idempotency key');
        return await createPacket(
          database,
          principal.clientId,
          idempotency,
          {
            senderId: body.senderId,
            currency: body.currency,
            split: {
              method: body.split,
              totalAmount: body.totalAmount,
              shareCount: body.shareCount,
              minShare: body.minShare,
              maxShare: body.maxShare ?? null,
            },
            opensAt: body.opensAt ?? null,
            expiresInSeconds: body.expiresInSeconds ?? null,
            greeting: body.greeting ?? null,
            audience: body.audience ?? null,
          },
          (packet) => ({ status: 201, body: packetBody(packet) }),
          createHooks,
        );
      },
    }),
    defineRoute({
      name: 'closePacket',
      method: 'POST',
      path: '/v1/packets/{id}/close',
      summary: 'Close a packet: the rest goes back to its sender; repeating it moves nothing',
      scopes: ['packets:write'],
      participant: () => true,
      params: z.strictObject({ id: packetId }),
      success: { 200: packetAnswer },
      refusals: ['NOT_FOUND'],
      handler: async ({ params, principal }) => {
        const packet = await closePacket(database, params.id, ({ sender_id: sender }) =>
          assertSender(principal, sender),
        );
        return { status: 200, body: packetViewBody(await viewOf(database, packet)) };
      },
    }),
  ];
}

function grabCalls({ desk, gate = null, grabFailed }: PacketDeps): Route[] {
  const params = z.strictObject({ id: packetId });
  return [
    defineRoute({
      name: 'grab',
      hot: true,
      method: 'POST',
      path: '/v1/packets/{id}/grabs',
      summary: 'Grab a share for one user; a repeat tells the original grab',
      scopes: ['packets:grab'],
      participant: (user, { body }) => body.userId === user,
      params,
      body: z.strictObject({ userId }),
      success: { 201: grabAnswer, 200: grabAnswer },
      refusals: ['NOT_FOUND', 'NOT_OPEN_YET', 'NOT_INVITED', 'SOLD_OUT', 'EXPIRED', 'CLOSED', 'SHED', 'BUSY'],
      handler: async ({ params: { id }, body }) => {
        if (gate !== null && isPacketId(id)) await passGate(gate, id, 1);
        const result = await desk.grab(id, body.userId);
        if (result.outcome === 'refused') throw result.refusal;
        return {
          status: result.outcome === 'granted' ? 201 : 200,
          body: { ...grabBody(result), outcome: result.outcome },
        };
      },
    }),
    defineRoute({
      name: 'grabBatch',
      hot: true,
      method: 'POST',
      path: '/v1/packets/{id}/grabs/batch',
      summary: 'Grab for up to 1,000 users at once, in the order of the list',
      scopes: ['packets:grab'],
      params,
      body: z.strictObject({ userIds: z.array(userId).min(1).max(1_000) }),
      success: {
        200: z.strictObject({
          results: z.array(
            z.strictObject({
              userId: z.string(),
              outcome: z.enum(['granted', 'already_granted', 'refused']),
              seq: z.int().optional(),
              amount: z.int().optional(),
              code: z.string().optional().describe('why it was refused, such as SOLD_OUT'),
            }),
          ),
        }),
      },
      refusals: ['NOT_FOUND', 'SHED', 'BUSY'],
      maxBodyBytes: 1024 * 1024,
      handler: async ({ params: { id }, body }) => {
        // A batch counts as its users, and goes in whole or not at all.
        if (gate !== null && isPacketId(id)) await passGate(gate, id, body.userIds.length);
        const outcomes = await Promise.all(
          body.userIds.map(async (user) => await outcomeOf(desk, id, user, grabFailed)),
        );
        // Where nobody can have got anything, the whole request is refused.
        const [first] = outcomes;
        const whole =
          first?.outcome === 'refused' && ['NOT_FOUND', 'BUSY', 'INTERNAL'].includes(first.refusal.code);
        if (whole && outcomes.every((outcome) => outcome.outcome === 'refused')) throw first.refusal;
        return {
          status: 200,
          body: { results: outcomes.map((outcome, index) => resultBody(body.userIds[index] ?? '', outcome)) },
        };
      },
    }),
  ];
}

function packetReads({ database }: PacketDeps): Route[] {
  const params = z.strictObject({ id: packetId });
  return [
    defineRoute({
      name: 'getPacket',
      hot: true,
      method: 'GET',
      path: '/v1/packets/{id}',
      summary: 'A packet as it is now',
      scopes: ['packets:read'],
      participant: () => true,
      params,
      success: { 200: packetAnswer },
      refusals: ['NOT_FOUND'],
      handler: async ({ params: { id } }) => ({
        status: 200,
        body: packetViewBody(await readPacket(database, id)),
      }),
    }),
    defineRoute({
      name: 'listGrabs',
      method: 'GET',
      path: '/v1/packets/{id}/grabs',
      summary: 'Who got what, in order of seq',
      scopes: ['packets:read'],
      participant: () => true,
      params,
      query: z.strictObject({ cursor: cursor.optional(), limit }),
      success: { 200: listOf(z.strictObject(grabFields)) },
      refusals: ['NOT_FOUND'],
      handler: async ({ params: { id }, query }) => {
        const { items, next } = await listGrabs(database, id, {
          afterSeq: seqOf(query.cursor),
          limit: query.limit,
        });
        return {
          status: 200,
          body: { items: items.map(grabBody), nextCursor: next === null ? null : String(next) },
        };
      },
    }),
    defineRoute({
      name: 'getProof',
      method: 'GET',
      path: '/v1/packets/{id}/proof',
      summary: 'The seed and the shares of a finished packet, to recompute its split',
      scopes: ['packets:read'],
      participant: () => true,
      params,
      success: {
        200: z.strictObject({
          packetId: z.string(),
          seed: z.string(),
          commitment: z.string(),
          split,
          minShare: z.int(),
          maxShare: z.int().nullable(),
          totalAmount: z.int(),
          shareCount: z.int(),
          shares: z.array(z.int()),
        }),
      },
      refusals: ['NOT_FOUND', 'NOT_FINISHED'],
      handler: async ({ params: { id } }) => ({ status: 200, body: await proofOf(database, id) }),
    }),
    defineRoute({
      name: 'listPacketsOfUser',
      method: 'GET',
      path: '/v1/users/{id}/packets',
      summary: 'Packets that a user sent or grabbed from, newest first',
      scopes: ['packets:read'],
      participant: (user, { params: { id } }) => id === user,
      params: z.strictObject({ id: userId }),
      query: z.strictObject({
        role: z.enum(['sender', 'grabber']).default('sender'),
        cursor: cursor.optional(),
        limit,
      }),
      success: {
        200: listOf(z.strictObject({ ...packetFields, grab: z.strictObject(grabFields).optional() })),
      },
      refusals: [],
      handler: async ({ params: { id }, query }) => {
        const page = { before: idOf(query.cursor), limit: query.limit };
        const { items, next } = await listPacketsOf(database, id, query.role, page);
        return {
          status: 200,
          body: {
            items: items.map(({ packet, grab }) => ({
              ...packetBody(packet),
              ...(grab === null ? {} : { grab: grabBody(grab) }),
            })),
            nextCursor: next,
          },
        };
      },
    }),
  ];
}

/** The sender's app may close, and the sender's own participant token. */
function assertSender(principal: Principal, senderId: string): void {
  if (principal.kind === 'participant' && principal.userId !== senderId) {
    throw new Refusal('FORBIDDEN', { detail: 'Only the sender of a packet may close it.' });
  }
}

/**
 * In a batch a failure of one is an outcome too: others may have been granted, so the whole cannot be an error.
 */
async function outcomeOf(
  desk: GrabDesk,
  id: string,
  user: string,
  failed: (error: unknown) => void,
): Promise<GrabOutcome> {
  try {
    return await desk.grab(id, user);
  } catch (error) {
    if (error instanceof Refusal) return { outcome: 'refused', refusal: error };
    failed(error);
    return { outcome: 'refused', refusal: new Refusal('INTERNAL') };
  }
}

function idOf(text: string | undefined): string | null {
  if (text === undefined) return null;
  if (isPacketId(text)) return text;
  throw foreignCursor();
}

/** A page of grabs goes on after a seq; a cursor that is none of ours is a fault of the request. */
function seqOf(text: string | undefined): number {
  if (text === undefined) return 0;
  if (/^\d{1,7}$/.test(text)) return Number(text);
  throw foreignCursor();
}
