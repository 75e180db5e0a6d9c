import { createHmac, timingSafeEqual } from 'node:crypto';

/** Participant tokens: `llt_<payload>.<HMAC-SHA256>`, both base64url. The payload names one user and an end. */

const prefix = 'llt_';

export function issueToken(secret: string, userId: string, expiresAt: Date): string {
  const payload = Buffer.from(JSON.stringify({ u: userId, e: expiresAt.getTime() })).toString('base64url');
  return `${prefix}${payload}.${mac(secret, payload).toString('base64url')}`;
}

/** The user that a token is bound to, or null when it is forged, malformed or over. */
export function userOfToken(secret: string, token: string, now: Date): string | null {
  if (!token.startsWith(prefix)) return null;
  const [payload, signature, ...rest] = token.slice(prefix.length).split('.');
  if (payload === undefined || signature === undefined || rest.length > 0) return null;
  const given = Buffer.from(signature, 'base64url');
  const expected = mac(secret, payload);
  if (given.length !== expected.length || !timingSafeEqual(given, expected)) return null;
  return userOfPayload(Buffer.from(payload, 'base64url').toString(), now);
}

/** The payload is ours, since its signature is; an older or newer version of us may still have written another shape. */
function userOfPayload(text: string, now: Date): string | null {
  try {
    const { u: userId, e: end } = JSON.parse(text) as { u?: unknown; e?: unknown };
    return typeof userId === 'string' && typeof end === 'number' && now.getTime() < end ? userId : null;
  } catch {
    return null;
  }
}

function mac(secret: string, payload: string): Buffer {
  return createHmac('sha256', secret).update(`participant:${payload}`).digest();
}
