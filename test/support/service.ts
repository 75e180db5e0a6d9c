import { createHash, randomBytes } from 'node:crypto';
import { assert } from 'chai';
import mysql from 'mysql2/promise';
import { Database, type DatabaseEvents, type DatabaseLimits } from '../../src/database/database.ts';
import { migrate } from '../../src/database/migrate.ts';
import { deposit } from '../../src/ledger/move.ts';
import type { IdempotencyRequest } from '../../src/idempotency/once.ts';
import { createPacket, type CreateHooks, type NewPacket } from '../../src/packet/create.ts';
import { GrabDesk } from '../../src/packet/grab-desk.ts';
import type { GrabOutcome } from '../../src/packet/packet.ts';
import { closePacket } from '../../src/packet/refund.ts';
import { reconcile, type RuleReport } from '../../src/reconcile/reconcile.ts';
import { applyRoles, giveRole } from '../../src/setup/private.ts';
import { adminUrl } from './engine.ts';

/**
 * A database of its own for a test file, migrated, with the service's user in it: the service has exactly the
 * rights of `db/roles.sql`, as in production. `admin` is the server's administrator, for looking and for tampering.
 */
export class TestBooks {
  readonly database: Database;
  readonly admin: mysql.Connection;
  readonly url: string;
  readonly adminUrl: string;
  readonly #name: string;
  readonly #desks: GrabDesk[] = [];
  readonly #others: Database[] = [];

  private constructor(
    database: Database,
    admin: mysql.Connection,
    urls: { service: string; admin: string },
    name: string,
  ) {
    this.database = database;
    this.admin = admin;
    this.url = urls.service;
    this.adminUrl = urls.admin;
    this.#name = name;
  }

  static async open(limits: Partial<DatabaseLimits> = {}, events: DatabaseEvents = {}): Promise<TestBooks> {
    const name = `ll_test_${randomBytes(5).toString('hex')}`;
    const root = new URL(adminUrl());
    const admin = await connect(root);
    await admin.query(`CREATE DATABASE ${name} CHARACTER SET utf8mb4`);
    await admin.query(`USE ${name}`);
    root.pathname = `/${name}`;
    await migrate(root.href);
    await applyRoles(admin);
    const service = await userWithRole(admin, root, name, 'luckyledger_service');
    const database = await Database.open(service, limits, events);
    return new TestBooks(database, admin, { service, admin: root.href }, name);
  }

  /** The URL of a user that has this role and nothing else. */
  async userWith(role: 'luckyledger_auditor' | 'luckyledger_migrator'): Promise<string> {
    return await userWithRole(this.admin, new URL(this.adminUrl), this.#name, role);
  }

  /** A connection of the administrator's, in this database; the caller ends it. */
  async sideSession(): Promise<mysql.Connection> {
    return await connect(new URL(this.adminUrl));
  }

  /** Another pool on the same books, as another process would have. */
  async another(limits: Partial<DatabaseLimits> = {}, events: DatabaseEvents = {}): Promise<Database> {
    const database = await Database.open(this.url, limits, events);
    this.#others.push(database);
    return database;
  }

  desk(database: Database = this.database, limits: ConstructorParameters<typeof GrabDesk>[1] = {}): GrabDesk {
    const desk = new GrabDesk(database, limits);
    this.#desks.push(desk);
    return desk;
  }

  async fund(owner: string, amount: number, currency = 'CNY'): Promise<void> {
    const reference = randomBytes(8).toString('hex');
    await this.database.withTransaction('test.fund', async (tx) => {
      await deposit(tx, { clientId: 'test', owner, currency, amount, reference });
    });
  }

  /** A packet of a funded sender; returns its id. */
  async packet(
    input: PacketInput,
    hooks: CreateHooks = {},
    database: Database = this.database,
  ): Promise<string> {
    const key = randomBytes(8).toString('hex');
    const { body } = await createPacket(
      database,
      'test',
      keyOnly('test', key),
      newPacket(input),
      ({ id }) => ({ status: 201, body: { id } }),
      hooks,
    );
    return (body as { id: string }).id;
  }

  async closePacket(packetId: string): Promise<void> {
    await closePacket(this.database, packetId, () => {});
  }

  async query<Row>(sql: string, values: unknown[] = []): Promise<Row[]> {
    const [rows] = await this.admin.query(sql, values);
    return rows as Row[];
  }

  async balance(owner: string, currency = 'CNY'): Promise<number> {
    const rows = await this.query<{ balance: number }>(
      "SELECT balance FROM accounts WHERE owner = ? AND currency = ? AND kind = 'wallet'",
      [owner, currency],
    );
    return rows[0]?.balance ?? 0;
  }

  /** Runs every reconciliation file; all of them must be silent. Returns what each took. */
  async assertClean(): Promise<RuleReport[]> {
    const reports = await reconcile(this.database);
    assert.isAtLeast(reports.length, 20, 'the reconciliation files are there');
    const found = reports.filter(({ findings }) => findings.length > 0);
    assert.deepEqual(
      found.map(({ rule, findings }) => ({ rule, first: findings.slice(0, 3) })),
      [],
    );
    return reports;
  }

  async close(): Promise<void> {
    await Promise.all(this.#desks.map(async (desk) => await desk.close()));
    await Promise.all([this.database, ...this.#others].map(async (database) => await database.close(5_000)));
    await this.admin.query(`DROP DATABASE ${this.#name}`);
    const users = await this.query<{ user: string; host: string }>(
      'SELECT User AS user, Host AS host FROM mysql.user WHERE User LIKE ?',
      [`${this.#name}%`],
    );
    for (const { user, host } of users) await this.admin.query('DROP USER ?@?', [user, host]);
    await this.admin.end();
  }
}

export interface PacketInput {
  senderId?: string;
  currency?: string;
  totalAmount: number;
  shareCount: number;
  method?: 'double-mean' | 'line-cut' | 'equal';
  minShare?: number;
  maxShare?: number | null;
  opensAt?: Date | null;
  expiresInSeconds?: number | null;
  audience?: string[] | null;
}

/** For callers that have no request to fingerprint: the key alone tells repeats. */
export function keyOnly(client: string, key: string): IdempotencyRequest {
  return { client, key, fingerprint: createHash('sha256').update(`${client}\n${key}`).digest('hex') };
}

export function newPacket(input: PacketInput): NewPacket {
  return {
    senderId: input.senderId ?? 'sender',
    currency: input.currency ?? 'CNY',
    split: {
      method: input.method ?? 'double-mean',
      totalAmount: input.totalAmount,
      shareCount: input.shareCount,
      minShare: input.minShare ?? 1,
      maxShare: input.maxShare ?? null,
    },
    opensAt: input.opensAt ?? null,
    expiresInSeconds: input.expiresInSeconds ?? null,
    greeting: null,
    audience: input.audience ?? null,
  };
}

/** Counts outcomes, with the codes of refusals: `{granted: 100, SOLD_OUT: 1900}`. */
export function tally(outcomes: readonly GrabOutcome[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const outcome of outcomes) {
    const name = outcome.outcome === 'refused' ? outcome.refusal.code : outcome.outcome;
    counts[name] = (counts[name] ?? 0) + 1;
  }
  return counts;
}

/** `count` different user ids. */
export function people(count: number, prefix = 'user'): string[] {
  return Array.from({ length: count }, (_, index) => `${prefix}-${index}`);
}

async function connect(address: URL): Promise<mysql.Connection> {
  return await mysql.createConnection({
    host: address.hostname,
    port: Number(address.port === '' ? '3306' : address.port),
    user: decodeURIComponent(address.username),
    password: decodeURIComponent(address.password),
    database: address.pathname.slice(1),
    timezone: 'Z',
    supportBigNumbers: true,
    flags: ['-FOUND_ROWS'],
  });
}

/** The URL of a new user that has this role and nothing else. */
async function userWithRole(
  admin: mysql.Connection,
  root: URL,
  database: string,
  role: string,
): Promise<string> {
  const user = `${database}_${role.slice('luckyledger_'.length, 'luckyledger_'.length + 3)}`;
  const password = randomBytes(12).toString('hex');
  await giveRole(admin, user, password, role);
  const url = new URL(root.href);
  url.username = user;
  url.password = password;
  url.pathname = `/${database}`;
  return url.href;
}
