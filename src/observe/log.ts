import { createLogger, format, transports, type Logger } from 'winston';
import { errnoOf } from '../database/errors.ts';

export type { Logger } from 'winston';

/** One JSON object a line, each with `fields`, on standard output. ERROR means that a person must act. */
export function createLog(
  level: 'error' | 'warn' | 'info' | 'debug',
  fields: Readonly<Record<string, unknown>> = {},
): Logger {
  return createLogger({
    level,
    defaultMeta: fields,
    format: format.combine(format.timestamp(), format.json()),
    transports: [new transports.Console({ stderrLevels: [] })],
  });
}

/** How long a request's line may wait for others, and how many may wait. */
const lineRestMs = 20;
const linesAtOnce = 512;

/**
 * Writes a line for each request, in the form of the log's own lines and on the same output, many in one write. winston's
 * formats and streams cost 44 µs for a line, a write of its own 10 µs; a grab's whole way through HTTP costs less.
 */
export function requestLines(
  level: 'error' | 'warn' | 'info' | 'debug',
  fields: Readonly<Record<string, unknown>> = {},
  output: { write: (text: string) => unknown } = process.stdout,
): (line: Record<string, unknown>) => void {
  if (level === 'error' || level === 'warn') return () => {};
  let waiting: string[] = [];
  const flush = (): void => {
    if (waiting.length === 0) return;
    const lines = waiting.join('');
    waiting = [];
    output.write(lines);
  };
  // What waits when the process ends is written then: its outputs are synchronous.
  process.once('exit', flush);
  return (line) => {
    if (waiting.length === 0) setTimeout(flush, lineRestMs).unref();
    waiting.push(
      `${JSON.stringify({ level: 'info', ...fields, ...line, timestamp: new Date().toISOString() })}\n`,
    );
    if (waiting.length >= linesAtOnce) flush();
  };
}

/** A chain of causes is followed this far; it may even be a circle. */
const maxCauses = 3;
const maxFrames = 12;

/**
 * What may be logged of an error. The driver's errors carry the SQL and the bound values in `sql`, `sqlMessage` and
 * `message`, so of those only the number and the place are kept.
 */
export function scrubbed(error: unknown, causes = maxCauses): Record<string, unknown> {
  if (!(error instanceof Error)) return { error: typeof error };
  const errno = errnoOf(error);
  const fromDatabase = errno !== null || 'sql' in error || 'sqlMessage' in error || 'sqlState' in error;
  const { code } = error as { code?: unknown };
  return {
    error: error.name,
    ...(typeof code === 'string' ? { errorCode: code } : {}),
    ...(errno === null ? {} : { errno }),
    ...(fromDatabase ? {} : { message: error.message }),
    stack: placesOf(error),
    ...(error.cause === undefined || causes === 0 ? {} : { cause: scrubbed(error.cause, causes - 1) }),
  };
}

/** The stack without the message that it begins with, which may have several lines and look like anything. */
function placesOf({ stack = '', message }: Error): string[] {
  const start = message === '' ? -1 : stack.indexOf(message);
  return stack
    .slice(start === -1 ? 0 : start + message.length)
    .split('\n')
    .filter((line) => /^\s+at /.test(line))
    .slice(0, maxFrames)
    .map((line) => line.trim());
}
