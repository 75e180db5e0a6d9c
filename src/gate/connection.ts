import { Redis, ReplyError } from 'ioredis';

/** How soon a lost connection is made again. It fails at once where nobody listens; after that the pause is longer. */
const firstRetryMs = 10;
const retryMs = 1_000;
/** For the connection, and then for Redis to be ready on it. */
const connectTimeoutMs = 2_000;
/** How long closing waits for the other end before it lets go. */
const closeMs = 200;

export interface ConnectionEvents {
  ready: () => void;
  /** There is no connection, or none that Redis lets in, and an attempt to make one has failed. */
  failed: (reason: string) => void;
}

/**
 * A connection that never stops trying. Commands fail at once while it is away: one that was sent later would count
 * requests that have long been answered.
 */
export function connectRedis(url: string, events: ConnectionEvents): Redis {
  let everReady = false;
  /** Redis did not let this connection in. It may look ready for a moment before it ends. */
  let refused = false;
  let lastReason = 'connection closed';
  const redis = new Redis({
    ...addressOf(url),
    lazyConnect: true,
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    // What waits for an answer when the connection goes is told so.
    maxRetriesPerRequest: 0,
    connectTimeout: connectTimeoutMs,
    // Not `socketTimeout`: its timer outlives its connection and then ends the next one.
    disconnectTimeout: closeMs,
    disableClientInfo: true,
    retryStrategy: (attempts) => {
      const again = everReady && attempts === 1 && !refused;
      refused = false;
      if (!again) events.failed(lastReason);
      return again ? firstRetryMs : retryMs;
    },
  });
  redis.on('error', (error: unknown) => {
    lastReason = reasonOf(error);
    refused = error instanceof ReplyError;
    if (refused) events.failed(lastReason);
  });
  let unready: NodeJS.Timeout | undefined;
  redis.on('connect', () => {
    unready = setTimeout(() => {
      events.failed('silence');
      redis.disconnect(true);
    }, connectTimeoutMs);
  });
  redis.on('close', () => clearTimeout(unready));
  redis.on('ready', () => {
    clearTimeout(unready);
    if (refused) return;
    everReady = true;
    events.ready();
  });
  // Its failure is told by the events.
  redis.connect().catch(() => {});
  return redis;
}

/** Where a connection is silent, its other end may be gone without a word: another one may find it. */
export function renew(redis: Redis): void {
  if (redis.status === 'ready') redis.disconnect(true);
}

/** For the log: where, without user and password. */
export function placeOf(url: string): string {
  const { host, port } = addressOf(url);
  return `${host}:${port}`;
}

/** Taken apart here: the library would take any option of its own from the URL's query. */
function addressOf(url: string) {
  const { protocol, hostname, port, username, password, pathname } = new URL(url);
  return {
    host: hostname.replace(/^\[(.*)\]$/, '$1'),
    port: port === '' ? 6379 : Number(port),
    // IPv4 and IPv6.
    family: 0,
    db: Number(pathname.slice(1)),
    ...(username === '' ? {} : { username: decodeURIComponent(username) }),
    ...(password === '' ? {} : { password: decodeURIComponent(password) }),
    ...(protocol === 'rediss:' ? { tls: {} } : {}),
  };
}

/** The kind of an error in a word. Never its text: Redis repeats what it was sent, and a password is sent too. */
export function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return 'unknown';
  if (error instanceof ReplyError) return /^[A-Z]+/.exec(error.message)?.[0] ?? 'ERR';
  const { code } = error as { code?: unknown };
  return typeof code === 'string' ? code : error.name;
}
