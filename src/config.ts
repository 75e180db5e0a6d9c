import { z } from 'zod';

/** The only reader of the environment. An empty value counts as unset. */

const port = z.coerce.number().int().min(0).max(65_535);

const databaseUrl = z
  .string()
  .refine(
    (text) => /^(mysql|mariadb):\/\//.test(text) && URL.canParse(text),
    'must look like mysql://user:password@host:3306/database',
  );

const schema = z.object({
  DATABASE_URL: databaseUrl.optional(),
  MIGRATE_DATABASE_URL: databaseUrl.optional(),
  HOST: z.string().default('127.0.0.1'),
  PORT: port.default(8080),
  API_KEY: z.string().optional(),
  TOKEN_SECRET: z.string().optional(),
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
