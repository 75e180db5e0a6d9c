import { z } from 'zod';

/** The only reader of the environment. An empty value counts as unset. */

const port = z.coerce.number().int().min(0).max(65_535);

const databaseUrl = z
  .string()
  .refine(
    (text) => /^(mysql|mariadb):\/\//.test(text) && URL.canParse(text),
    'must look like mysql://user:password@host:3306/database',
  );

const redisUrl = z
  .string()
  .refine(isRedisUrl, 'must look like redis://user:password@host:6379/0, or rediss:// for TLS');

const schema = z.object({
  DATABASE_URL: databaseUrl.optional(),
  MIGRATE_DATABASE_URL: databaseUrl.optional(),
  HOST: z.string().default('127.0.0.1'),
  PORT: port.default(8080),
  API_KEY: z.string().optional(),
  TOKEN_SECRET: z.string().optional(),
  REDIS_URL: redisUrl.optional(),
  GATE_LIMIT: z.coerce.number().int().min(1).max(1_000_000_000).default(10_000),
  GATE_WINDOW_MS: z.coerce.number().int().min(10).max(3_600_000).default(1_000),
  WORKERS: z.coerce.number().int().min(1).max(64).default(1),
  POOL_SIZE: z.coerce.number().int().min(2).max(500).default(16),
  LOG_LEVEL: z.enum(['error', 'warn', 'info', 'debug']).default('info'),
});

export interface Config {
  databaseUrl: string | null;
  /** Migrations run with this one, where the service's own user may not change the schema. */
  migrateDatabaseUrl: string | null;
  host: string;
  port: number;
  apiKey: string | null;
  tokenSecret: string | null;
  /** Processes that serve the same port. */
  workers: number;
  /** Database connections of each process. */
  poolSize: number;
  /** The Redis gate, or null for none. At most `limit` requests of a packet go in per window. */
  gate: { url: string; limit: number; windowMs: number } | null;
  logLevel: 'error' | 'warn' | 'info' | 'debug';
}

/** Throws an Error that names every wrong variable, never its value: it may be a secret. */
export function readConfig(environment: NodeJS.ProcessEnv): Config {
  const set = Object.fromEntries(
    Object.entries(environment).filter(([, value]) => value !== undefined && value !== ''),
  );
  const result = schema.safeParse(set);
  if (!result.success) {
    const faults = result.error.issues.map(({ path, message }) => `  ${path.join('.')}: ${message}`);
    throw new Error(`The environment has faults:\n${faults.join('\n')}`);
  }
  const values = result.data;
  return {
    databaseUrl: withDatabase(values.DATABASE_URL),
    migrateDatabaseUrl: withDatabase(values.MIGRATE_DATABASE_URL),
    host: values.HOST,
    port: values.PORT,
    apiKey: values.API_KEY ?? null,
    tokenSecret: values.TOKEN_SECRET ?? null,
    workers: values.WORKERS,
    poolSize: values.POOL_SIZE,
    gate:
      values.REDIS_URL === undefined
        ? null
        : { url: values.REDIS_URL, limit: values.GATE_LIMIT, windowMs: values.GATE_WINDOW_MS },
    logLevel: values.LOG_LEVEL,
  };
}

/** A URL that names no database means `luckyledger`. */
function withDatabase(text: string | undefined): string | null {
  if (text === undefined) return null;
  const url = new URL(text);
  if (url.pathname === '' || url.pathname === '/') url.pathname = '/luckyledger';
  return url.href;
}

/** Options in the URL are refused: none would be heeded. */
function isRedisUrl(text: string): boolean {
  if (!/^rediss?:\/\/./.test(text) || !URL.canParse(text)) return false;
  const { hostname, username, password, pathname, search, hash } = new URL(text);
  try {
    decodeURIComponent(username + password);
  } catch {
    return false;
  }
  return hostname !== '' && /^\/?\d{0,5}$/.test(pathname) && search + hash === '';
}
