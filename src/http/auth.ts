import { createHash, timingSafeEqual } from 'node:crypto';
import { Refusal } from '../refusal.ts';
import type { Principal } from './route.ts';
import { userOfToken } from './tokens.ts';

export interface StoredKey {
  id: string;
  secretHash: string;
  scopes: readonly string[];
  revokedAt: Date | null;
}

export interface AuthDeps {
  findKey: (id: string) => Promise<StoredKey | null>;
  /** A key from the environment that may do everything; null when there is none. */
  apiKey: string | null;
  tokenSecret: string;
}

/** How long a key that was found, or not found, is believed: a revoked key dies within this time. */
const believeMs = 5_000;
const maxRemembered = 10_000;

/** Tells who calls, by the `Authorization` header. Refuses: UNAUTHORIZED. */
export class Authenticator {
  readonly #deps: AuthDeps;
  readonly #rootHash: Buffer | null;
  readonly #known = new Map<string, { key: Promise<StoredKey | null>; until: number }>();

  constructor(deps: AuthDeps) {
    this.#deps = deps;
    this.#rootHash = deps.apiKey === null ? null : sha256(deps.apiKey);
  }

  async principalOf(header: string | undefined): Promise<Principal> {
    const bearer = /^Bearer +([\x21-\x7e]{1,4096})$/i.exec(header ?? '')?.[1];
    if (bearer === undefined) throw unauthorized();
    if (this.#rootHash !== null && timingSafeEqual(sha256(bearer), this.#rootHash)) {
      return { kind: 'key', clientId: 'environment', scopes: new Set(['admin']) };
    }
    const userId = userOfToken(this.#deps.tokenSecret, bearer, new Date());
    if (userId !== null) return { kind: 'participant', clientId: `user:${userId}`, userId };
    const match = /^llk_([0-9a-f]{16})_([A-Za-z0-9_-]{32})$/.exec(bearer);
    const [, id, secret] = match ?? [];
    if (id === undefined || secret === undefined) throw unauthorized();
    const key = await this.#find(id);
    if (key === null || key.revokedAt !== null) throw unauthorized();
    if (!timingSafeEqual(sha256(secret), Buffer.from(key.secretHash, 'hex'))) throw unauthorized();
    return { kind: 'key', clientId: `key:${key.id}`, scopes: new Set(key.scopes) };
  }

  /** One look-up for all who ask at once; a failed one is not remembered. */
  async #find(id: string): Promise<StoredKey | null> {
    const known = this.#known.get(id);
    if (known !== undefined && performance.now() < known.until) return await known.key;
    if (this.#known.size >= maxRemembered) this.#known.clear();
    const key = this.#deps.findKey(id);
    this.#known.set(id, { key, until: performance.now() + believeMs });
    try {
      return await key;
    } catch (error) {
      this.#known.delete(id);
      throw error;
    }
  }
}

function sha256(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}

function unauthorized(): Refusal {
  return new Refusal('UNAUTHORIZED', {
    detail: 'Send "Authorization: Bearer KEY" with a valid API key or participant token.',
  });
}
