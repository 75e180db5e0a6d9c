import type { Fault, Refusal, RefusalCode } from '../refusal.ts';

/** The one table that turns reasons into HTTP. */
export const problems: Record<RefusalCode, { status: number; title: string }> = {
  INVALID_REQUEST: { status: 400, title: 'The request has faults' },
  UNAUTHORIZED: { status: 401, title: 'An API key or a participant token is needed' },
  FORBIDDEN: { status: 403, title: 'This caller may not do this' },
  NOT_INVITED: { status: 403, title: 'Not invited' },
  NOT_FOUND: { status: 404, title: 'Not found' },
  METHOD_NOT_ALLOWED: { status: 405, title: 'Method not allowed' },
  PAYLOAD_TOO_LARGE: { status: 413, title: 'The body is too large' },
  UNSUPPORTED_MEDIA_TYPE: { status: 415, title: 'The body must be JSON' },
  INSUFFICIENT_FUNDS: { status: 409, title: 'Insufficient funds' },
  LIMIT_EXCEEDED: { status: 409, title: 'A limit of the ledger would be passed' },
  REFERENCE_REUSED: { status: 409, title: 'The reference was used for something else' },
  ALREADY_REVERSED: { status: 409, title: 'Reversed already' },
  NOT_REVERSIBLE: { status: 409, title: 'Cannot be reversed' },
  IDEMPOTENCY_KEY_IN_FLIGHT: { status: 409, title: 'A request with this key is running' },
  NOT_OPEN_YET: { status: 409, title: 'Not open yet' },
  NOT_FINISHED: { status: 409, title: 'Not finished yet' },
  SOLD_OUT: { status: 410, title: 'Sold out' },
  EXPIRED: { status: 410, title: 'Expired' },
  CLOSED: { status: 410, title: 'Closed' },
  IDEMPOTENCY_KEY_REUSED: { status: 422, title: 'The key belongs to another request' },
  RATE_LIMITED: { status: 429, title: 'Too many requests' },
  SHED: { status: 429, title: 'Too many grabs of this packet' },
  SPLIT_REJECTED: { status: 500, title: 'The split failed its check' },
  INTERNAL: { status: 500, title: 'Internal error' },
  BUSY: { status: 503, title: 'Busy' },
};

/** A problem document (RFC 9457) with a stable `code`. */
export interface Problem {
  type: 'about:blank';
  title: string;
  status: number;
  code: RefusalCode;
  detail?: string;
  /** INVALID_REQUEST: every fault of the request. */
  errors?: Fault[];
  requestId: string;
  [member: string]: unknown;
}

/** Refusals that pass by themselves: a caller is always told when to come back, in seconds. */
const retryAfterSeconds: Partial<Record<RefusalCode, number>> = {
  BUSY: 1,
  RATE_LIMITED: 1,
  SHED: 1,
  IDEMPOTENCY_KEY_IN_FLIGHT: 1,
};

/** The problem document of a refusal, and the headers that its status asks for. */
export function problemOf(
  refusal: Refusal,
  requestId: string,
): { problem: Problem; headers: Record<string, string> } {
  const { status, title } = problems[refusal.code];
  const headers: Record<string, string> = {};
  const retryAfter = refusal.retryAfterSeconds ?? retryAfterSeconds[refusal.code];
  // Whole seconds, rounded up: a caller who comes back early is turned away again.
  if (retryAfter !== undefined) headers['retry-after'] = String(Math.max(1, Math.ceil(retryAfter)));
  if (refusal.code === 'UNAUTHORIZED') headers['www-authenticate'] = 'Bearer';
  if (typeof refusal.extra['allow'] === 'string') headers['allow'] = refusal.extra['allow'];
  const problem: Problem = {
    ...refusal.extra,
    type: 'about:blank',
    title,
    status,
    code: refusal.code,
    ...(refusal.detail === undefined ? {} : { detail: refusal.detail }),
    ...(refusal.faults.length === 0 ? {} : { errors: refusal.faults }),
    requestId,
  };
  return { problem, headers };
}
