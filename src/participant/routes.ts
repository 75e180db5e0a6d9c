import { z } from 'zod';
import { defineRoute, type Route } from '../http/route.ts';
import { time, userId } from '../http/schemas.ts';
import { issueToken } from '../http/tokens.ts';

/** Participant tokens: for browsers and phones, which must not hold an app's key. */
export function participantRoutes({ tokenSecret }: { tokenSecret: string }): Route[] {
  return [
    defineRoute({
      name: 'issueParticipantToken',
      method: 'POST',
      path: '/v1/participant-tokens',
      summary: 'A short-lived token that can act for one user only',
      scopes: ['tokens:write'],
      body: z.strictObject({ userId, ttlSeconds: z.int().min(1).max(86_400).default(3_600) }),
      success: { 201: z.strictObject({ token: z.string(), userId: z.string(), expiresAt: time }) },
      refusals: [],
      handler: async ({ body }) => {
        const expiresAt = new Date(Date.now() + body.ttlSeconds * 1000);
        const token = issueToken(tokenSecret, body.userId, expiresAt);
        return await Promise.resolve({
          status: 201,
          body: { token, userId: body.userId, expiresAt: expiresAt.toISOString() },
        });
      },
    }),
  ];
}
