/**
 * What a database error means, told by its errno: code names differ between engines and drivers (a CHECK
 * violation is 3819 on MySQL, 4025 on MariaDB), numbers do not.
 */
export type ErrorKind =
  /** The transaction lost to another one: run the whole unit again. */
  | 'conflict'
  /** The connection or the server is gone, or the server takes no writes: run again on another connection. */
  | 'lost'
  | 'duplicate'
  | 'check'
  | 'other';

const conflicts = new Set([
  1213, // deadlock: everything is rolled back
  1205, // lock wait timeout: only the statement is rolled back, so the unit must be
  1020, // MariaDB: record changed since last read
  3572, // MySQL: NOWAIT found the row locked
  1317, // somebody killed the query; only the statement is rolled back
  1969, // MariaDB: a statement took longer than max_statement_time
  3024, // MySQL: a statement took longer than max_execution_time
]);

const losses = new Set([
  1040, // too many connections
  1053, // server shutdown in progress
  1158, // network read error
  1159, // network read interrupted
  1160, // network write error
  1161, // network write interrupted
  1203, // user has too many connections
  1290, // the server runs with --read-only (fail-over under way)
  1836, // running in read-only mode
  1927, // MariaDB: connection was killed
  2006, // server has gone away
  2013, // lost connection during query
  4031, // MySQL: disconnected for inactivity
]);

const lossCodes = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'EPIPE',
  'ETIMEDOUT',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ENOTFOUND',
  'EAI_AGAIN',
  'PROTOCOL_CONNECTION_LOST',
  'PROTOCOL_SEQUENCE_TIMEOUT',
  'POOL_CLOSED',
]);

interface DriverError {
  errno?: number;
  code?: string;
  fatal?: boolean;
  message?: string;
}

/** The error number that the server gave, or null when it is not a server's error. */
export function errnoOf(error: unknown): number | null {
  if (typeof error !== 'object' || error === null) return null;
  const { errno } = error as DriverError;
  // System errors carry negative numbers (-111 for ECONNREFUSED); the server's are positive.
  return typeof errno === 'number' && errno > 0 ? errno : null;
}

export function errorKind(error: unknown): ErrorKind {
  if (error instanceof RepeatUnitError) return 'conflict';
  const errno = errnoOf(error);
  if (errno === 1062) return 'duplicate';
  if (errno === 3819 || errno === 4025) return 'check';
  if (errno !== null && conflicts.has(errno)) return 'conflict';
  if (errno !== null && losses.has(errno)) return 'lost';
  if (typeof error !== 'object' || error === null) return 'other';
  const { code, fatal, message } = error as DriverError;
  if (code !== undefined && lossCodes.has(code)) return 'lost';
  // Once a connection has died, the driver says so only in words; access-denied errors are fatal too, but final.
  if (message !== undefined && /closed state|connection is closed|Pool is closed/i.test(message))
    return 'lost';
  if (fatal === true && errno === null) return 'lost';
  return 'other';
}

/** Thrown by a unit that found the world changed under it: the whole unit runs again, like after a deadlock. */
export class RepeatUnitError extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'RepeatUnitError';
  }
}

/** A deadline passed while the database was working; the connection was destroyed, the outcome is unknown. */
export class DeadlineError extends Error {
  readonly code = 'ETIMEDOUT';
  constructor(unit: string, deadlineMs: number) {
    super(`${unit} did not finish within ${deadlineMs} ms`);
    this.name = 'DeadlineError';
  }
}
