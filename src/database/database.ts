import knexModule, { type Knex } from 'knex';
import mysql, { type Pool, type PoolOptions } from 'mysql2';
import type { PoolConnection, ResultSetHeader, RowDataPacket } from 'mysql2/promise';
import { Refusal } from '../refusal.ts';
import { Admission } from './admission.ts';
import { assertSupported, parseEngine, type Engine } from './engine.ts';
import { DeadlineError, errorKind, errnoOf } from './errors.ts';
import { statement, type Bound, type Statement } from './statement.ts';

export interface DatabaseLimits {
  /** Connections of this process. */
  poolSize: number;
  /** How many units may wait for a connection, and for how long. */
  queueLength: number;
  queueWaitMs: number;
  connectTimeoutMs: number;
  /** How long one statement waits for a row lock; whole seconds, since the engines count so. */
  lockWaitMs: number;
  /** How long one attempt of a unit may take before its connection is destroyed. */
  deadlineMs: number;
  /** How often a unit that lost a conflict or its connection is run, the first time included. */
  attempts: number;
}

export const defaultLimits: DatabaseLimits = {
  poolSize: 16,
  queueLength: 1024,
  queueWaitMs: 3_000,
  connectTimeoutMs: 3_000,
  lockWaitMs: 3_000,
  deadlineMs: 15_000,
  attempts: 6,
};

/** What the door tells whoever watches it (metrics); all optional, none may throw. */
export interface DatabaseEvents {
  retried?: (unit: string, cause: string) => void;
  finished?: (unit: string, seconds: number, outcome: 'committed' | 'rolled_back') => void;
  /** Called before each statement of a transaction with its text; what it throws, the statement throws. For fault tests. */
  before?: (sql: string, connection: PoolConnection) => Promise<void>;
}

export interface Changed {
  affectedRows: number;
  insertId: number;
}

/** One statement with its values, not sent yet; `Result` is what it will answer. See `rowsOf` and `changeOf`. */
export interface Step<Result> {
  readonly query: Statement<unknown>;
  readonly values: readonly Bound[];
  /** How many rows it must affect; null: any number. */
  readonly expected: number | null;
  readonly read: (answer: unknown) => Result;
}

/** A step that reads rows. */
export function rowsOf<Row>(query: Statement<Row>, values: readonly Bound[] = []): Step<Row[]> {
  return { query, values, expected: null, read: (answer) => answer as Row[] };
}

/** A step that writes. It fails, and so does its transaction, when it does not affect exactly `expected` rows. */
export function changeOf(
  query: Statement,
  values: readonly Bound[] = [],
  expected: number | null = null,
): Step<Changed> {
  return {
    query,
    values,
    expected,
    read: (answer) => {
      const { affectedRows, insertId } = answer as ResultSetHeader;
      if (expected !== null && affectedRows !== expected)
        throw new Error(`${query.name} affected ${affectedRows} rows, not ${expected}`);
      return { affectedRows, insertId };
    },
  };
}

type Results<Steps extends readonly Step<unknown>[]> = {
  -readonly [Index in keyof Steps]: Steps[Index] extends Step<infer Result> ? Result : never;
};

/** Runs named statements in one transaction. Made by `withTransaction` only; a function that writes takes one. */
export interface Tx {
  rows<Row>(query: Statement<Row>, values?: readonly Bound[]): Promise<Row[]>;
  change(query: Statement, values?: readonly Bound[]): Promise<Changed>;
  /**
   * Runs these steps one after the other in one round trip; the first that fails ends them. A round trip costs more
   * than most statements: about 0.1 ms of waiting, and 50 µs of this process's CPU.
   */
  all<const Steps extends readonly Step<unknown>[]>(...steps: Steps): Promise<Results<Steps>>;
  /**
   * The same, and the COMMIT in the same round trip; nothing may follow in this unit. What a step must affect is
   * checked by the server before the COMMIT.
   */
  finish(...steps: readonly Step<unknown>[]): Promise<void>;
}

/** Reads committed rows outside a transaction; a function that only reads takes one. */
export interface Db {
  rows<Row>(query: Statement<Row>, values?: readonly Bound[], options?: UnitOptions): Promise<Row[]>;
  /** Runs a builder made with `knex`. The builder must be a SELECT. */
  select<Row extends object>(name: string, build: (knex: Knex) => Knex.QueryBuilder): Promise<Row[]>;
}

export interface UnitOptions {
  /** Replaces the deadline of one attempt, for long units such as a packet of a million shares. */
  deadlineMs?: number;
}

interface Connected {
  connection: PoolConnection;
  /** Rejects when the deadline passes; every statement races it, as a destroyed connection never answers. */
  expired: Promise<never>;
  before: DatabaseEvents['before'];
  fate: Fate;
  /** Outside a transaction; about to begin one: START TRANSACTION travels with the first statement; in it; committed. */
  state: 'outside' | 'opening' | 'inside' | 'committed';
}

/** Whether a COMMIT of this unit was sent whose answer never came: then nobody knows yet what became of it. */
interface Fate {
  unknown: boolean;
}

/** How often a unit whose COMMIT met the deadline is run in all, to learn what became of it. */
const attemptsToLook = 3;

const sessionSql = (lockWaitMs: number): string =>
  "SET SESSION sql_mode = 'STRICT_ALL_TABLES,ONLY_FULL_GROUP_BY,NO_ZERO_DATE,NO_ZERO_IN_DATE," +
  "ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION', time_zone = '+00:00', " +
  `innodb_lock_wait_timeout = ${Math.max(1, Math.round(lockWaitMs / 1000))}`;

const version = statement<{ version: string; charset: string }>(
  'database.version',
  'SELECT VERSION() AS version, @@character_set_client AS charset',
);

/** The options of the one pool, each explicit, each for a reason in engine-level experience. */
export function poolOptions(url: string, limits: DatabaseLimits): PoolOptions {
  const address = new URL(url);
  const socketPath = address.searchParams.get('socketPath');
  return {
    host: address.hostname.replace(/^\[|\]$/g, ''),
    port: address.port === '' ? 3306 : Number(address.port),
    ...(socketPath === null ? {} : { socketPath }),
    user: decodeURIComponent(address.username),
    password: decodeURIComponent(address.password),
    database: decodeURIComponent(address.pathname.slice(1)),
    ...(address.searchParams.has('ssl') ? { ssl: { rejectUnauthorized: true } } : {}),
    // Without this affectedRows would count matched rows, and a lost conditional update would look like a win.
    flags: ['-FOUND_ROWS'],
    timezone: 'Z',
    // A utf8mb4_0900 collation would silently become latin1 on MariaDB.
    charset: 'utf8mb4_general_ci',
    supportBigNumbers: true,
    bigNumberStrings: false,
    decimalNumbers: false,
    stringifyObjects: true,
    // Several statements travel in one round trip. Texts are constants of this code, and the driver escapes what is bound.
    multipleStatements: true,
    connectTimeout: limits.connectTimeoutMs,
    connectionLimit: limits.poolSize,
    maxIdle: limits.poolSize,
    idleTimeout: 60_000,
    waitForConnections: true,
    queueLimit: 0,
    enableKeepAlive: true,
  };
}

/** knex on the same pool: one pool, two faces. It never ends the pool. */
export function knexOn(pool: Pool): Knex {
  // The driver's typed overloads do not match knex's minimal pool interface, though the object does.
  const connectionPool = pool as unknown as NonNullable<Knex.Config['connectionPool']>;
  return knexModule.knex({ client: 'mysql2', connectionPool, compileSqlOnError: false });
}

/**
 * The database door: one pool with two faces (mysql2 for transactions and hot statements, knex for lists), the
 * only BEGIN and COMMIT of the service, the whole-unit retry, and the bounded wait in front of it all.
 */
export class Database implements Db {
  readonly engine: Engine;
  readonly limits: DatabaseLimits;
  readonly knex: Knex;
  readonly admission: Admission;
  readonly #pool: Pool;
  readonly #events: DatabaseEvents;

  private constructor(pool: Pool, engine: Engine, limits: DatabaseLimits, events: DatabaseEvents) {
    this.#pool = pool;
    this.engine = engine;
    this.limits = limits;
    this.#events = events;
    this.admission = new Admission({
      slots: limits.poolSize,
      queueLength: limits.queueLength,
      queueWaitMs: limits.queueWaitMs,
    });
    this.knex = knexOn(pool);
  }

  /** Connects, and refuses an engine that is too old or a connection whose character set is not utf8mb4. */
  static async open(
    url: string,
    limits: Partial<DatabaseLimits> = {},
    events: DatabaseEvents = {},
  ): Promise<Database> {
    const all = { ...defaultLimits, ...limits };
    const pool = mysql.createPool(poolOptions(url, all));
    pool.on('connection', (connection) => {
      // Queued before the first statement of whoever asked for the connection; one that cannot be set up is not used.
      const failed = (error: Error | null): void => {
        if (error !== null) connection.destroy();
      };
      connection.query('SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED', failed);
      connection.query(sessionSql(all.lockWaitMs), failed);
    });
    try {
      const [rows] = await pool
        .promise()
        .query<(RowDataPacket & { version: string; charset: string })[]>(version.text);
      const [row] = rows;
      if (row === undefined) throw new Error('the database did not tell its version');
      const engine = parseEngine(row.version);
      assertSupported(engine);
      if (row.charset !== 'utf8mb4') throw new Error(`the connection speaks ${row.charset}, not utf8mb4`);
      return new Database(pool, engine, all, events);
    } catch (error) {
      pool.end(() => {});
      throw error;
    }
  }

  async rows<Row>(
    query: Statement<Row>,
    values: readonly Bound[] = [],
    options: UnitOptions = {},
  ): Promise<Row[]> {
    return await this.#attempts(
      query.name,
      options,
      async (connected) => (await exchange(connected, [rowsOf(query, values)]))[0],
    );
  }

  async select<Row extends object>(name: string, build: (knex: Knex) => Knex.QueryBuilder): Promise<Row[]> {
    return await this.#attempts(name, {}, async ({ connection, expired }) => {
      const builder = build(this.knex).hintComment(name).connection(connection.connection);
      return (await Promise.race([builder, expired])) as Row[];
    });
  }

  /**
   * Runs `unit` in one transaction and returns what it returned, after the commit. The whole unit runs again,
   * bounded and jittered, after a conflict (errno 1213, 1205, 1020) or a lost connection. Since a COMMIT whose
   * answer was lost may have happened, every unit must begin by looking whether its effect is there already.
   * A Refusal, or any other error, rolls back and is passed on. When the attempts run out: BUSY, which wrote
   * nothing, unless its detail says that the outcome is not known: then the database went silent during COMMIT and
   * did not come back while we looked.
   */
  async withTransaction<T>(
    name: string,
    unit: (tx: Tx) => Promise<T>,
    options: UnitOptions = {},
  ): Promise<T> {
    return await this.#attempts(name, options, async (connected) => {
      const started = performance.now();
      let outcome: 'committed' | 'rolled_back' = 'rolled_back';
      try {
        connected.state = 'opening';
        const result = await unit(transactionOn(connected));
        await commit(connected);
        outcome = 'committed';
        return result;
      } finally {
        this.#events.finished?.(name, (performance.now() - started) / 1000, outcome);
      }
    });
  }

  /** Stops admitting, waits for what runs, then ends the pool. Never longer than the deadline. */
  async close(deadlineMs = 10_000): Promise<void> {
    await this.admission.close(deadlineMs);
    await this.knex.destroy();
    await new Promise<void>((resolve) => {
      this.#pool.end(() => resolve());
    });
  }

  /** Connection after connection, until the work succeeds, fails for good, or the attempts run out. */
  async #attempts<T>(
    name: string,
    options: UnitOptions,
    work: (connected: Connected) => Promise<T>,
  ): Promise<T> {
    const fate: Fate = { unknown: false };
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await this.#once(name, options.deadlineMs ?? this.limits.deadlineMs, fate, work);
      } catch (error) {
        const kind = errorKind(error);
        const turnedAway = fate.unknown && error instanceof Refusal && error.code === 'BUSY';
        if (kind !== 'conflict' && kind !== 'lost' && !turnedAway) throw error;
        this.#events.retried?.(name, String(errnoOf(error) ?? kind));
        // Past a deadline the time that the caller may be kept waiting is used up, unless a COMMIT was under way:
        // then the next attempt waits for its locks and finds what became of it.
        const late = error instanceof DeadlineError && !(fate.unknown && attempt < attemptsToLook);
        if (attempt >= this.limits.attempts || late) throw gaveUp(fate, error);
        // A lost connection usually comes with a server that needs a moment; a conflict is over at once.
        const baseMs = kind === 'lost' ? 100 : 5;
        await pause(Math.min(1_000, baseMs * 2 ** (attempt - 1)) * (0.5 + Math.random()));
      }
    }
  }

  /** One attempt on one connection, which goes back to the pool only when it is known to be idle. */
  async #once<T>(
    name: string,
    deadlineMs: number,
    fate: Fate,
    work: (connected: Connected) => Promise<T>,
  ): Promise<T> {
    await this.admission.enter();
    try {
      const connection = await this.#pool.promise().getConnection();
      let timer: NodeJS.Timeout | undefined;
      const expired = new Promise<never>((_, reject) => {
        timer = setTimeout(() => reject(new DeadlineError(name, deadlineMs)), deadlineMs);
      });
      // Nobody may be racing at the moment when it rejects.
      expired.catch(() => {});
      const connected: Connected = {
        connection,
        expired,
        before: this.#events.before,
        fate,
        state: 'outside',
      };
      let clean = false;
      try {
        const result = await work(connected);
        clean = true;
        return result;
      } catch (error) {
        clean = errorKind(error) !== 'lost' && (await rolledBack(connected));
        throw error;
      } finally {
        clearTimeout(timer);
        if (clean) connection.release();
        else connection.destroy();
      }
    } finally {
      this.admission.leave();
    }
  }
}

function transactionOn(connected: Connected): Tx {
  return {
    rows: async (query, values) => (await exchange(connected, [rowsOf(query, values)]))[0],
    change: async (query, values) => (await exchange(connected, [changeOf(query, values)]))[0],
    all: async (...steps) => await exchange(connected, steps),
    finish: async (...steps) => {
      await commit(connected, steps);
    },
  };
}

const startTransaction = changeOf({ name: 'begin', text: 'START TRANSACTION' });
const commitTransaction = changeOf({ name: 'commit', text: 'COMMIT' });
const rollbackTransaction = changeOf({ name: 'rollback', text: 'ROLLBACK' });

/**
 * Fails, on the server, unless the statement before it affected so many rows: e to the power of 1000 is out of range. Of what
 * fails at run time this was the cheapest, 22 µs; a subquery of two rows took 100. Not DO, whose errors MariaDB ignores.
 */
const assertAffected = statement(
  'database.assert_affected',
  'SET @affected = EXP(1000 * (ROW_COUNT() <> ?))',
);

/** These steps in one round trip, or the deadline. */
async function exchange<const Steps extends readonly Step<unknown>[]>(
  connected: Connected,
  steps: Steps,
): Promise<Results<Steps>> {
  const begins = connected.state === 'opening';
  if (begins) connected.state = 'inside';
  const all = begins ? [startTransaction, ...steps] : steps;
  const answers =
    connected.before === undefined ? await send(connected, all) : await sendSingly(connected, all);
  return answers.slice(all.length - steps.length) as Results<Steps>;
}

async function send({ connection, expired }: Connected, steps: readonly Step<unknown>[]): Promise<unknown[]> {
  const texts = steps.map(({ query, values }) =>
    values.length === 0 ? query.text : connection.format(query.text, values as unknown[]),
  );
  const [answer] = await Promise.race([connection.query(texts.join('; ')), expired]);
  const answers = steps.length === 1 ? [answer] : (answer as unknown[]);
  return steps.map(({ read }, index) => read(answers[index]));
}

/** For fault tests: a fault may strike between any two statements. */
async function sendSingly(connected: Connected, steps: readonly Step<unknown>[]): Promise<unknown[]> {
  const answers: unknown[] = [];
  for (const step of steps) {
    await connected.before?.(step.query.text, connected.connection);
    answers.push(...(await send(connected, [step])));
  }
  return answers;
}

/** Commits, after these steps. */
async function commit(connected: Connected, steps: readonly Step<unknown>[] = []): Promise<void> {
  // Nothing has run, or it is done already: there is nothing to commit.
  if (steps.length === 0 && connected.state !== 'inside') return;
  const guarded = steps.flatMap((step) =>
    step.expected === null ? [step] : [step, changeOf(assertAffected, [step.expected])],
  );
  try {
    await exchange(connected, [...guarded, commitTransaction]);
    connected.state = 'committed';
  } catch (error) {
    // Told an error, we know that nothing was committed; told nothing, we do not.
    if (errorKind(error) === 'lost') connected.fate.unknown = true;
    throw error;
  }
}

function gaveUp(fate: Fate, cause: unknown): Refusal {
  const detail = fate.unknown
    ? 'The database went silent during the commit, so the outcome is not known. Repeat the request: it tells the result.'
    : 'The database did not answer in time. Nothing was written; repeat the request.';
  return new Refusal('BUSY', { detail, retryAfterSeconds: 1, cause });
}

/** Whether the connection is known to be outside any transaction afterwards. */
async function rolledBack(connected: Connected): Promise<boolean> {
  connected.state = 'inside';
  try {
    await exchange(connected, [rollbackTransaction]);
    return true;
  } catch {
    // The first error is the one that counts; a connection that cannot roll back is thrown away.
    return false;
  }
}

async function pause(ms: number): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, ms));
}
