import { createHash, randomBytes } from 'node:crypto';
import type { Database, Db } from '../database/database.ts';
import { statement } from '../database/statement.ts';
import { Refusal } from '../refusal.ts';

/** API keys of client apps: `llk_<id>_<secret>`. Only the SHA-256 of the secret is stored. */

interface KeyRow {
  id: string;
  name: string;
  secret_hash: string;
  scopes: string;
  created_at: Date;
  revoked_at: Date | null;
}

const insertKey = statement(
  'keys.insert',
  'INSERT INTO api_keys (id, name, secret_hash, scopes, created_at) VALUES (?, ?, ?, ?, UTC_TIMESTAMP(3))',
);
const findKeyById = statement<KeyRow>(
  'keys.find',
  'SELECT id, name, secret_hash, scopes, created_at, revoked_at FROM api_keys WHERE id = ?',
);
const allKeys = statement<KeyRow>(
  'keys.list',
  'SELECT id, name, secret_hash, scopes, created_at, revoked_at FROM api_keys ORDER BY created_at, id',
);
const revokeKeyById = statement(
  'keys.revoke',
  'UPDATE api_keys SET revoked_at = UTC_TIMESTAMP(3) WHERE id = ? AND revoked_at IS NULL',
);

export interface ApiKey {
  id: string;
  name: string;
  secretHash: string;
  scopes: string[];
  createdAt: Date;
  revokedAt: Date | null;
}

/** Makes a key and returns it whole: the only time that its secret is seen. */
export async function createKey(
  database: Database,
  name: string,
  scopes: readonly string[],
): Promise<{ id: string; key: string }> {
  const id = randomBytes(8).toString('hex');
  const secret = randomBytes(24).toString('base64url');
  const hash = createHash('sha256').update(secret).digest('hex');
  await database.withTransaction('keys.create', async (tx) => {
    const [made] = await tx.rows(findKeyById, [id]);
    // Here already: an earlier attempt committed, only its answer was lost.
    if (made === undefined) await tx.change(insertKey, [id, name, hash, scopes.join(',')]);
  });
  return { id, key: `llk_${id}_${secret}` };
}

export async function findKey(db: Db, id: string): Promise<ApiKey | null> {
  const [row] = await db.rows(findKeyById, [id]);
  return row === undefined ? null : keyOf(row);
}

export async function listKeys(db: Db): Promise<ApiKey[]> {
  return (await db.rows(allKeys)).map(keyOf);
}

/** Revokes a key; a repeat is harmless. Refuses: NOT_FOUND. */
export async function revokeKey(database: Database, id: string): Promise<void> {
  await database.withTransaction('keys.revoke', async (tx) => {
    const [row] = await tx.rows(findKeyById, [id]);
    if (row === undefined) throw new Refusal('NOT_FOUND', { detail: 'There is no key with this id.' });
    await tx.change(revokeKeyById, [id]);
  });
}

function keyOf(row: KeyRow): ApiKey {
  return {
    id: row.id,
    name: row.name,
    secretHash: row.secret_hash,
    scopes: row.scopes.split(','),
    createdAt: row.created_at,
    revokedAt: row.revoked_at,
  };
}
