import { createLogger, format, transports, type Logger } from 'winston';
import { errnoOf } from '../database/errors.ts';

export type { Logger } from 'winston';

/** One JSON object a line, on standard output. ERROR means that a person must act. */
export function createLog(level: 'error' | 'warn' | 'info' | 'debug'): Logger {
  return createLogger({
    level,
    format: format.combine(format.timestamp(), format.json()),
    transports: [new transports.Console({ stderrLevels: [] })],
  });
}

/**
 * What may be logged of an error. The driver's errors carry the SQL and the bound values in `sql`, `sqlMessage` and
 * `message`, so of those only the number and the place are kept.
 */
export function scrubbed(error: unknown): Record<string, unknown> {
  if (!(error instanceof Error)) return { error: typeof error };
  const errno = errnoOf(error);
  const fromDatabase = errno !== null || 'sql' in error;
  const { code } = error as { code?: unknown };
  return {
    error: error.name,
    ...(typeof code === 'string' ? { errorCode: code } : {}),
    ...(errno === null ? {} : { errno }),
    ...(fromDatabase ? {} : { message: error.message }),
    // The first line of a stack repeats the message.
    stack: (error.stack ?? '')
      .split('\n')
      .filter((line) => /^\s+at /.test(line))
      .slice(0, 12)
      .map((line) => line.trim()),
    ...(error.cause === undefined ? {} : { cause: scrubbed(error.cause) }),
  };
}
