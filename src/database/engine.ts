export interface Engine {
  name: 'MySQL' | 'MariaDB';
  /** For example `9.7.0`. */
  version: string;
}

/** A server that the service must not run on; the message says why and what to do. */
export class UnsupportedEngineError extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'UnsupportedEngineError';
  }
}

const oldest = { MySQL: [8, 0], MariaDB: [10, 6] } as const;

/** Reads `SELECT VERSION()`, e.g. `9.7.0`, `11.8.3-MariaDB-0+deb13u1`, `5.5.5-10.11.6-MariaDB`. */
export function parseEngine(versionText: string): Engine {
  // Old replication clients are told "5.5.5-" before MariaDB's real version.
  const match = /^(?:5\.5\.5-)?(\d+\.\d+(?:\.\d+)?)/.exec(versionText);
  if (match?.[1] === undefined) {
    throw new UnsupportedEngineError(
      `The database calls itself "${versionText.slice(0, 60)}", which is no known version.`,
    );
  }
  return { name: /mariadb/i.test(versionText) ? 'MariaDB' : 'MySQL', version: match[1] };
}

/**
 * Refuses engines without SKIP LOCKED or enforced CHECKs: there, a sweeper would answer "nothing to do" for ever
 * and a negative balance would be stored.
 */
export function assertSupported(engine: Engine): void {
  const [major = 0, minor = 0] = engine.version.split('.').map(Number);
  const [minMajor, minMinor] = oldest[engine.name];
  if (major > minMajor || (major === minMajor && minor >= minMinor)) return;
  throw new UnsupportedEngineError(
    `${engine.name} ${engine.version} is too old: it lacks SKIP LOCKED or enforced CHECK constraints. ` +
      `Luckyledger needs MySQL 8.0 or later, or MariaDB 10.6 or later.`,
  );
}
