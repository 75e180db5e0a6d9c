/**
 * Why an operation said no. Rules return or throw a reason; nothing below `http/` knows a status code.
 * `http/problem.ts` holds the one exhaustive table from these codes to HTTP.
 *
 * Throwing a Refusal inside `withTransaction` rolls the transaction back, so a refused request writes nothing.
 */
export const refusalCodes = [
  'INVALID_REQUEST',
  'UNAUTHORIZED',
  'FORBIDDEN',
  'NOT_FOUND',
  'METHOD_NOT_ALLOWED',
  'PAYLOAD_TOO_LARGE',
  'UNSUPPORTED_MEDIA_TYPE',
  'RATE_LIMITED',
  'SHED',
  'INSUFFICIENT_FUNDS',
  'LIMIT_EXCEEDED',
  'REFERENCE_REUSED',
  'ALREADY_REVERSED',
  'NOT_REVERSIBLE',
  'IDEMPOTENCY_KEY_IN_FLIGHT',
  'IDEMPOTENCY_KEY_REUSED',
  'SPLIT_REJECTED',
  'SOLD_OUT',
  'EXPIRED',
  'CLOSED',
  'NOT_OPEN_YET',
  'NOT_INVITED',
  'NOT_FINISHED',
  'BUSY',
  'INTERNAL',
] as const;

export type RefusalCode = (typeof refusalCodes)[number];

/** One fault of a request: where it is (`body.totalAmount`, `query.limit`, `header.idempotency-key`) and what is wrong. */
export interface Fault {
  path: string;
  message: string;
}

export interface RefusalDetails {
  /** One sentence for people: what is wrong and what to do next. Never SQL, a stack or a bound value. */
  detail?: string;
  /** Every fault of the request (INVALID_REQUEST only). */
  faults?: Fault[];
  /** Seconds after which a repeat makes sense (becomes `Retry-After`). */
  retryAfterSeconds?: number;
  /** Further members of the problem document, such as `opensAt`. */
  extra?: Record<string, string | number | null>;
  cause?: unknown;
}

export class Refusal extends Error {
  readonly code: RefusalCode;
  readonly detail: string | undefined;
  readonly faults: Fault[];
  readonly retryAfterSeconds: number | undefined;
  readonly extra: Record<string, string | number | null>;

  constructor(code: RefusalCode, details: RefusalDetails = {}) {
    // An expected outcome, of which a sold-out packet makes thousands a second: nobody reads its stack, and it costs 5 µs.
    const { stackTraceLimit } = Error;
    Error.stackTraceLimit = 0;
    super(details.detail ?? code, details.cause === undefined ? undefined : { cause: details.cause });
    Error.stackTraceLimit = stackTraceLimit;
    this.name = 'Refusal';
    this.code = code;
    this.detail = details.detail;
    this.faults = details.faults ?? [];
    this.retryAfterSeconds = details.retryAfterSeconds;
    this.extra = details.extra ?? {};
  }
}

/** Past a limit: nothing was written, and a repeat in a moment makes sense. */
export function busy(detail: string): Refusal {
  return new Refusal('BUSY', { detail: `${detail} Nothing was written; try again.`, retryAfterSeconds: 1 });
}
