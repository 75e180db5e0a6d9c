import { spawn, type ChildProcess } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { Redis } from 'ioredis';
import { pidOfServer } from './processes.ts';

/**
 * How much of what Redis answered survives its crash. As it comes: snapshots from time to time, so the last minutes
 * are lost. always: every write is flushed to disk before its answer, as a database does at a commit.
 */
export type RedisDurability = 'as it comes' | 'always';

export interface BenchRedis {
  url: string;
  /** Null when the server is not on this machine. */
  pid: number | null;
  /** What the server says of itself. */
  version: string;
  settings: { save: string; appendonly: string; appendfsync: string };
  stop: () => Promise<void>;
}

const startMs = 10_000;

/**
 * A Redis server for the benchmark: BENCH_REDIS_URL if set, else `redis-server` from PATH on a free port with its
 * data in a temporary folder. A given server keeps its settings, so null when they are not those asked for. In it
 * only the keys of RedisFirst are written, and deleted by `forget`.
 */
export async function startRedis(durability: RedisDurability): Promise<BenchRedis | null> {
  const given = process.env['BENCH_REDIS_URL'] ?? '';
  const server = given === '' ? await startServer(durability) : { url: given, stop: async () => {} };
  try {
    const facts = await ask(server.url);
    const flushed = facts.settings.appendonly === 'yes' && facts.settings.appendfsync === 'always';
    if (flushed === (durability === 'always')) {
      return { ...server, ...facts, pid: pidOfServer(server.url, 6379) };
    }
    await server.stop();
    if (given !== '') return null;
    throw new Error(`redis-server has other settings than asked for: ${JSON.stringify(facts.settings)}`);
  } catch (error) {
    await server.stop();
    throw error;
  }
}

async function startServer(durability: RedisDurability): Promise<Pick<BenchRedis, 'url' | 'stop'>> {
  const folder = mkdtempSync(join(tmpdir(), 'luckyledger-bench-redis-'));
  const port = await freePort();
  const flush = durability === 'always' ? ['--appendonly', 'yes', '--appendfsync', 'always'] : [];
  const child = spawn(
    'redis-server',
    ['--port', String(port), '--bind', '127.0.0.1', '--dir', folder, ...flush],
    {
      stdio: ['ignore', 'pipe', 'inherit'],
    },
  );
  const discard = (): void => {
    child.kill('SIGKILL');
    rmSync(folder, { recursive: true, force: true });
  };
  process.once('exit', discard);
  const stop = async (): Promise<void> => {
    await ended(child);
    process.off('exit', discard);
    rmSync(folder, { recursive: true, force: true });
  };
  try {
    await readyToAccept(child);
  } catch (error) {
    await stop();
    throw error;
  }
  return { url: `redis://127.0.0.1:${port}`, stop };
}

async function readyToAccept(child: ChildProcess): Promise<void> {
  let said = '';
  let timer: NodeJS.Timeout | undefined;
  await new Promise<void>((resolve, reject) => {
    timer = setTimeout(() => reject(new Error(`redis-server was not ready:\n${said}`)), startMs);
    child.once('error', (error) =>
      reject(new Error(`redis-server cannot be run (${error.message}): install it, or set BENCH_REDIS_URL`)),
    );
    child.once('exit', () => reject(new Error(`redis-server ended:\n${said}`)));
    if (child.stdout === null) throw new Error('redis-server has no output');
    createInterface({ input: child.stdout }).on('line', (line) => {
      said += `${line}\n`;
      if (line.includes('Ready to accept connections')) resolve();
    });
  }).finally(() => clearTimeout(timer));
}

/** Killed, so that it writes no last snapshot: nobody needs these data. */
async function ended(child: ChildProcess): Promise<void> {
  if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
  const exit = new Promise<void>((resolve) => child.once('exit', () => resolve()));
  child.kill('SIGKILL');
  await exit;
}

async function ask(url: string): Promise<Pick<BenchRedis, 'version' | 'settings'>> {
  const redis = new Redis(url, { lazyConnect: true, maxRetriesPerRequest: 0, retryStrategy: () => null });
  // Said by the command that fails, too.
  redis.on('error', () => {});
  try {
    await redis.connect();
    const info = await redis.info('server');
    const setting = async (name: string): Promise<string> => {
      const answer = (await redis.config('GET', name)) as string[];
      return answer[1] ?? '';
    };
    return {
      version: /redis_version:(\S+)/.exec(info)?.[1] ?? 'unknown',
      settings: {
        save: await setting('save'),
        appendonly: await setting('appendonly'),
        appendfsync: await setting('appendfsync'),
      },
    };
  } finally {
    redis.disconnect();
  }
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(0, '127.0.0.1', resolve);
  });
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}
