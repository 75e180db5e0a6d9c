import { createHash, timingSafeEqual } from 'node:crypto';
import { Refusal } from '../refusal.ts';
import { scopes, type Principal, type Scope } from './route.ts';
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
const maxBelieved = 1_000;
/** Far above any key or token of ours, and a bound on what is hashed for a stranger. */
const maxCredentialCharacters = 4_096;

/** Tells who calls, by the `Authorization` header. Refuses: UNAUTHORIZED. */
export class Authenticator {
  readonly #deps: AuthDeps;
  readonly #rootHash: Buffer | null;
  readonly #believed = new Map<string, { principal: Principal; until: number }>();
  readonly #known = new Map<string, { key: Promise<StoredKey | null>; until: number }>();

  constructor(deps: AuthDeps) {
    this.#deps = deps;
    this.#rootHash = deps.apiKey === null ? null : sha256(deps.apiKey);
  }

  async principalOf(header: string | undefined): Promise<Principal> {
    const believed = header === undefined ? undefined : this.#believed.get(header);
    if (believed !== undefined && performance.now() < believed.until) return believed.principal;
    const credential = /^Bearer +(\S.*)$/i.exec(header ?? '')?.[1]?.trimEnd();
    if (header === undefined || credential === undefined || credential.length > maxCredentialCharacters)
      throw unauthorized();
    // Node reads headers as Latin-1. The key from the environment may be any text, so its bytes are compared.
    if (this.#rootHash !== null && sameHash(Buffer.from(credential, 'latin1'), this.#rootHash)) {
      const principal = { kind: 'key', clientId: 'environment', scopes: new Set<Scope>(['admin']) } as const;
      return this.#believe(header, principal, performance.now() + believeMs);
    }
    const userId = userOfToken(this.#deps.tokenSecret, credential, new Date());
    if (userId !== null) return { kind: 'participant', clientId: `user:${userId}`, userId };
    const [, id, secret] = /^llk_([0-9a-f]{16})_([A-Za-z0-9_-]{32})$/.exec(credential) ?? [];
    if (id === undefined || secret === undefined) throw unauthorized();
    const { key, until } = await this.#find(id);
    if (key === null || key.revokedAt !== null) throw unauthorized();
    if (!sameHash(secret, Buffer.from(key.secretHash, 'hex'))) throw unauthorized();
    const scopesOfKey = new Set(key.scopes.filter(isScope));
    return this.#believe(header, { kind: 'key', clientId: `key:${key.id}`, scopes: scopesOfKey }, until);
  }

  /**
   * An app sends the same header with each request, and hashing it costs as much as parsing its body. Only headers that were
   * right get here, so a stranger can neither fill the map nor learn from it; a token's user rarely comes again soon.
   */
  #believe(header: string, principal: Principal, until: number): Principal {
    if (this.#believed.size >= maxBelieved) this.#believed.clear();
    this.#believed.set(header, { principal, until });
    return principal;
  }

  /** One look-up for all who ask at once; a failed one is not remembered. */
  async #find(id: string): Promise<{ key: StoredKey | null; until: number }> {
    const known = this.#known.get(id);
    if (known !== undefined && performance.now() < known.until) return { ...known, key: await known.key };
    this.#forgetOldest();
    const entry = { key: this.#deps.findKey(id), until: performance.now() + believeMs };
    // Deleted first, so that the map's order stays the order of looking up.
    this.#known.delete(id);
    this.#known.set(id, entry);
    try {
      return { ...entry, key: await entry.key };
    } catch (error) {
      if (this.#known.get(id) === entry) this.#known.delete(id);
      throw error;
    }
  }

  /** Guessed ids push out the oldest entries only, never all of them at once. */
  #forgetOldest(): void {
    if (this.#known.size < maxRemembered) return;
    const [oldest] = this.#known.keys();
    if (oldest !== undefined) this.#known.delete(oldest);
  }
}

function isScope(text: string): text is Scope {
  return (scopes as readonly string[]).includes(text);
}

/** Compares in a time that tells nothing about the secret. */
function sameHash(secret: string | Buffer, expected: Buffer): boolean {
  const given = sha256(secret);
  return given.length === expected.length && timingSafeEqual(given, expected);
}

function sha256(text: string | Buffer): Buffer {
  return createHash('sha256').update(text).digest();
}

function unauthorized(): Refusal {
  return new Refusal('UNAUTHORIZED', {
    detail: 'Send "Authorization: Bearer KEY" with a valid API key or participant token.',
  });
}
