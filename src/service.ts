import type { Config } from './config.ts';
import { Database } from './database/database.ts';
import { statement } from './database/statement.ts';
import { openGate, type GateOptions } from './gate/gate.ts';
import { Authenticator } from './http/auth.ts';
import { fastLane } from './http/fast-lane.ts';
import { listen, type Listening } from './http/lifecycle.ts';
import type { Route } from './http/route.ts';
import { createApp, type ServerDeps } from './http/server.ts';
import { findKey } from './keys/keys.ts';
import { ledgerRoutes } from './ledger/routes.ts';
import { scrubbed, type Logger } from './observe/log.ts';
import { Metrics } from './observe/metrics.ts';
import type { CreateHooks } from './packet/create.ts';
import { ClaimThread } from './packet/claim-thread.ts';
import { GrabDesk } from './packet/grab-desk.ts';
import { GrabMemory } from './packet/grab-memory.ts';
import { sweepExpired } from './packet/refund.ts';
import { packetRoutes } from './packet/routes.ts';
import { participantRoutes } from './participant/routes.ts';
import { Worker } from './worker.ts';

export const version = '0.1.0';

/** How long a probe waits for the database. */
const readyMs = 2_000;

/** How often each process looks for expired packets. */
const sweepRestMs = 1_000;

export interface ServiceOptions {
  databaseUrl: string;
  tokenSecret: string;
  config: Pick<Config, 'host' | 'port' | 'apiKey' | 'poolSize'> & {
    /** Null, or left out: no gate. */
    gate?: Pick<GateOptions, 'url' | 'limit' | 'windowMs' | 'timeoutMs'> | null;
  };
  log: Logger;
  /** Where each request's line goes; the log, if left out. */
  requestLog?: (line: Record<string, unknown>) => void;
  /** False: express serves the hot routes too. To compare. */
  fastLane?: boolean;
  metrics?: Metrics;
  createHooks?: CreateHooks;
  /** Checks every answer against its schema: in tests. */
  checkAnswers?: boolean;
}

export interface Service {
  address: string;
  routes: readonly Route[];
  /** Stops taking work, finishes what waits, and closes the pool, within the deadline. */
  close: (deadlineMs?: number) => Promise<void>;
}

const ping = statement<{ one: number }>('database.ping', 'SELECT 1 AS one');

/** Every route of the service; without a service, for the OpenAPI document. */
export function allRoutes(deps: Parameters<typeof packetRoutes>[0] & { tokenSecret: string }): Route[] {
  return [...ledgerRoutes(deps), ...packetRoutes(deps), ...participantRoutes(deps)];
}

/** Wires the service together and serves it. The schema must be there: see `migrate`. */
export async function startService(options: ServiceOptions): Promise<Service> {
  const { config, log } = options;
  const metrics = options.metrics ?? new Metrics();
  const failed = (error: unknown, where: Record<string, unknown>): void => {
    log.error('unexpected failure', { ...where, ...scrubbed(error) });
  };
  // Half of the connections are for grabs, the rest for everything else.
  const forGrabs = Math.max(1, Math.floor(config.poolSize / 2));
  const { databaseUrl } = options;
  const events = metrics.databaseEvents();
  const poolSize = config.poolSize - forGrabs;
  const database = await Database.open(databaseUrl, { poolSize }, events);
  const thread = await ClaimThread.start({
    databaseUrl,
    poolSize: forGrabs,
    events,
    broke: (error) => failed(error, { part: 'the thread of the grabs' }),
  }).catch(async (error: unknown) => {
    await database.close(1_000);
    throw error;
  });
  const desk = new GrabDesk(
    database,
    { batchesInFlight: forGrabs },
    {
      batch: (size, oldestWaitMs) => {
        metrics.batchSize.observe(size);
        metrics.batchWaitSeconds.observe(oldestWaitMs / 1000);
      },
      outcome: (outcome) => metrics.grabs.inc({ outcome }),
    },
    new GrabMemory(),
    thread.claim,
  );
  metrics.gauge('luckyledger_grabs_waiting', 'Grabs that wait for a transaction.', () => desk.waiting);
  metrics.gauge('luckyledger_pool_in_use', 'Database connections in use.', () => database.admission.inside);
  metrics.gauge(
    'luckyledger_pool_waiting',
    'Units that wait for a connection.',
    () => database.admission.waiting,
  );

  const gate = config.gate ? await openGate({ ...config.gate, log, metrics }) : null;
  const createHooks: CreateHooks = {
    splitRejected: (parameters) => void log.error('a split failed its independent check', parameters),
    ...options.createHooks,
  };
  const routes = allRoutes({
    database,
    desk,
    gate,
    tokenSecret: options.tokenSecret,
    createHooks,
    grabFailed: (error) => failed(error, { route: 'grabBatch' }),
  });
  const serverDeps: ServerDeps = {
    authenticator: new Authenticator({
      findKey: async (id) => await findKey(database, id),
      apiKey: config.apiKey,
      tokenSecret: options.tokenSecret,
    }),
    failed: (error, route, requestId) => failed(error, { route: route.name, requestId }),
    checkAnswers: options.checkAnswers ?? false,
    metrics,
    version,
    ready: async () => ({ database: await answers(database) }),
    log: options.requestLog ?? ((line) => void log.info(line)),
  };
  const app = createApp(routes, serverDeps);
  const sweeper = new Worker(
    async () => metrics.refunded.inc(await sweepExpired(database)),
    sweepRestMs,
    (error) => void log.warn('the sweeper failed and will try again', scrubbed(error)),
  );
  let listening: Listening;
  try {
    listening = await listen(
      options.fastLane === false ? app : fastLane(routes, app, serverDeps),
      config.host,
      config.port,
    );
  } catch (error) {
    await sweeper.stop();
    await gate?.close();
    await thread.close(1_000);
    await database.close(1_000);
    throw error;
  }
  return {
    address: listening.address,
    routes,
    close: async (deadlineMs = 10_000) => {
      await listening.close(deadlineMs);
      await sweeper.stop();
      await gate?.close();
      await desk.close();
      await Promise.all([thread.close(deadlineMs), database.close(deadlineMs)]);
    },
  };
}

async function answers(database: Database): Promise<boolean> {
  const asked = database.rows(ping, [], { deadlineMs: readyMs }).then(
    ([row]) => row?.one === 1,
    () => false,
  );
  // A server that accepts connections and then says nothing would keep the look-up trying for longer.
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<boolean>((resolve) => {
    timer = setTimeout(() => resolve(false), readyMs);
  });
  return await Promise.race([asked, late]).finally(() => clearTimeout(timer));
}
