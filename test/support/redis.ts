import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { accessSync, constants } from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { Redis } from 'ioredis';
import { GenericContainer } from 'testcontainers';
import { installPackage, mayInstall } from '../../src/setup/install.ts';
import { pause } from '../../src/setup/process.ts';
import { Valve } from './valve.ts';

/** A Redis that tests may freeze, kill and empty. */
interface Server {
  url: string;
  freeze: () => void;
  thaw: () => void;
  kill: () => Promise<void>;
  restart: () => Promise<void>;
  stop: () => Promise<void>;
}

/**
 * A real Redis for a test file: TEST_REDIS_URL if set (tests empty it), else a `redis-server` or `valkey-server` of
 * this machine in a process of its own, else a container, else, as root on Debian or Ubuntu, the distribution's
 * package. A process of our own is frozen and killed by signals; for a server that others run, a valve before it
 * stops the traffic, or cuts it and refuses more.
 */
export class TestRedis {
  /** For the service. */
  readonly url: string;
  /** For looking and tampering. */
  readonly client: Redis;
  readonly #server: Server;

  private constructor(server: Server) {
    this.#server = server;
    this.url = server.url;
    this.client = new Redis(server.url, { retryStrategy: () => 20 });
    // It tries again for as long as the server is away.
    this.client.on('error', () => {});
  }

  static async start(): Promise<TestRedis> {
    const redis = new TestRedis(await provide());
    await redis.client.flushall();
    return redis;
  }

  /** Connections stay, and nothing is answered. */
  freeze(): void {
    this.#server.freeze();
  }

  thaw(): void {
    this.#server.thaw();
  }

  /** Gone with all that it held; connections are refused. */
  async kill(): Promise<void> {
    await this.#server.kill();
  }

  /** Empty, at the same address. */
  async restart(): Promise<void> {
    await this.#server.restart();
  }

  /** How often it was asked to run a script since the last `CONFIG RESETSTAT`. */
  async scriptCalls(): Promise<number> {
    const stats = await this.client.info('commandstats');
    const calls = [...stats.matchAll(/cmdstat_eval(?:sha)?:calls=(\d+)/g)];
    return calls.reduce((sum, [, count]) => sum + Number(count), 0);
  }

  async stop(): Promise<void> {
    this.client.disconnect();
    await this.#server.stop();
  }
}

async function provide(): Promise<Server> {
  const given = process.env['TEST_REDIS_URL'] ?? '';
  if (given !== '') return await behindValve(given, async () => {});
  const program = findProgram();
  if (program !== null) return await ownProcess(program);
  try {
    return await container();
  } catch (error) {
    const reason = error instanceof Error ? error.message.split('\n')[0] : String(error);
    if (!mayInstall())
      throw new Error(
        `The tests of the gate need a redis-server on the PATH, a Docker engine, or TEST_REDIS_URL (${reason})`,
        { cause: error },
      );
  }
  await installPackage('redis-server');
  return await ownProcess(findProgram() ?? 'redis-server');
}

/** A server program of this machine; where there is none, and it may be, the distribution's package is installed. */
export async function redisProgram(): Promise<string> {
  const program = findProgram();
  if (program !== null) return program;
  if (!mayInstall())
    throw new Error('There is no redis-server on the PATH: install one, or set BENCH_REDIS_URL');
  await installPackage('redis-server');
  return findProgram() ?? 'redis-server';
}

function findProgram(): string | null {
  const folders = [...(process.env['PATH'] ?? '').split(':'), '/usr/sbin', '/usr/local/bin'];
  for (const name of ['redis-server', 'valkey-server'])
    for (const folder of folders) {
      try {
        const path = join(folder, name);
        accessSync(path, constants.X_OK);
        return path;
      } catch {
        // Not here.
      }
    }
  return null;
}

/** A shell holds on to the server and ends it when its own input ends: with `stop`, and with this process. */
const keeper = '"$@" >/dev/null & echo $!; read -r _; kill -9 $! 2>/dev/null; wait';

async function ownProcess(program: string): Promise<Server> {
  const port = await freePort();
  const url = `redis://127.0.0.1:${port}`;
  const args = ['--port', String(port), '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no'];
  let shell: ChildProcess;
  let pid = 0;
  const start = async (): Promise<void> => {
    const child = spawn('sh', ['-c', keeper, 'sh', program, ...args, '--dir', tmpdir()], {
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    shell = child;
    const [line] = (await once(createInterface({ input: child.stdout }), 'line')) as [string];
    pid = Number(line);
    await answering(url);
  };
  const end = async (): Promise<void> => {
    const exit = once(shell, 'exit');
    shell.stdin?.end();
    await exit;
  };
  await start();
  return {
    url,
    freeze: () => void process.kill(pid, 'SIGSTOP'),
    thaw: () => void process.kill(pid, 'SIGCONT'),
    kill: end,
    restart: start,
    stop: end,
  };
}

async function container(): Promise<Server> {
  const started = await new GenericContainer('redis:8').withExposedPorts(6379).start();
  const discard = (): void =>
    void spawnSync('docker', ['rm', '--force', '--volumes', started.getId()], { timeout: 20_000 });
  process.on('exit', discard);
  const url = `redis://${started.getHost()}:${started.getMappedPort(6379)}`;
  return await behindValve(url, async () => {
    await started.stop();
    process.off('exit', discard);
  });
}

async function behindValve(url: string, stop: () => Promise<void>): Promise<Server> {
  await answering(url);
  const valve = await Valve.before(url);
  return {
    url: valve.url,
    freeze: () => valve.hold(),
    thaw: () => valve.release(),
    kill: async () => {
      await valve.shut();
      const direct = new Redis(url);
      await direct.flushall();
      direct.disconnect();
    },
    restart: async () => await valve.open(),
    stop: async () => {
      await valve.shut();
      await stop();
    },
  };
}

async function answering(url: string): Promise<void> {
  const deadline = Date.now() + 20_000;
  for (;;) {
    const probe = new Redis(url, { lazyConnect: true, retryStrategy: () => null, connectTimeout: 2_000 });
    probe.on('error', () => {});
    try {
      await probe.connect();
      await probe.ping();
      return;
    } catch (error) {
      if (Date.now() > deadline) throw new Error('the Redis for tests does not answer', { cause: error });
      await pause(20);
    } finally {
      probe.disconnect();
    }
  }
}

/** A port that nobody listens on. */
export async function freePort(): Promise<number> {
  const server = createServer();
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}
