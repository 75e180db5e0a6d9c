import { startService } from '../../src/service.ts';
import { createLog } from '../../src/observe/log.ts';
import { announce, discardedLines } from './peers/lane.ts';

/** The service as `serve` starts it, on a database that is there already. DATABASE_URL, PORT, API_KEY, POOL_SIZE. */
const service = await startService({
  databaseUrl: process.env['DATABASE_URL'] ?? '',
  tokenSecret: 'a secret for the benchmark',
  config: {
    host: '127.0.0.1',
    port: Number(process.env['PORT'] ?? 0),
    apiKey: process.env['API_KEY'] ?? null,
    poolSize: Number(process.env['POOL_SIZE'] ?? 16),
  },
  log: createLog('warn'),
  requestLog: discardedLines(),
});
announce(service.address, async () => await service.close());
