import { spawn, type ChildProcess } from 'node:child_process';
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { networkInterfaces } from 'node:os';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

/** How long a process may take to say that it is ready, and to end by itself. */
const startMs = 30_000;
const endMs = 20_000;

export interface BenchProcess {
  pid: number;
  /** What it said when it was ready: a server's `{"port": …}`. */
  ready: Record<string, unknown>;
  /** The last JSON line that it printed. */
  said: () => Record<string, unknown>;
  /** Sends SIGTERM and waits; rejects when it does not end well. After `kill` it only waits. */
  stop: () => Promise<void>;
  /** Ends it as a crash does. */
  kill: () => void;
}

export interface ProcessPlan {
  /** Relative to this folder, such as `peers/express-peer.ts`. */
  file: string;
  args?: readonly string[];
  env?: Readonly<Record<string, string>>;
  /** Whether this line of its output says that it is ready; the first JSON line, if left out. */
  isReady?: (line: Record<string, unknown>) => boolean;
}

/** A file of this folder as it is called where this one runs: compiled, or from its source. */
export function compiledName(file: string): string {
  return import.meta.url.endsWith('.js') ? file.replace(/\.ts$/, '.js') : file;
}

/** Starts a TypeScript file, with this process's options of Node, as a process of its own; resolves when it says that it is ready. */
export async function startProcess(plan: ProcessPlan): Promise<BenchProcess> {
  const file = fileURLToPath(new URL(compiledName(plan.file), import.meta.url));
  const child = spawn(process.execPath, [...process.execArgv, file, ...(plan.args ?? [])], {
    env: { ...process.env, NODE_ENV: 'production', ...plan.env },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const endWithUs = (): void => void child.kill('SIGKILL');
  process.once('exit', endWithUs);
  const ended = endOf(child);
  // Whoever stops it hears of it; until then nobody may be listening.
  ended.then(
    () => process.off('exit', endWithUs),
    () => {},
  );
  let last: Record<string, unknown> = {};
  const ready = new Promise<Record<string, unknown>>((resolve) => {
    createInterface({ input: child.stdout }).on('line', (text) => {
      const line = jsonLine(text);
      if (line === null) return;
      last = line;
      if (plan.isReady?.(line) ?? true) resolve(line);
    });
  });
  const early = ended.then(() => Promise.reject(new Error(`${plan.file} ended before it was ready`)));
  const first = await withDeadline(Promise.race([ready, early]), startMs, `${plan.file} was not ready`).catch(
    (error: unknown) => {
      child.kill('SIGKILL');
      throw error;
    },
  );
  let killed = false;
  return {
    pid: child.pid ?? 0,
    ready: first,
    said: () => last,
    kill: () => {
      killed = true;
      child.kill('SIGKILL');
    },
    stop: async () => {
      child.kill('SIGTERM');
      const { code, signal } = await withDeadline(ended, endMs, `${plan.file} did not end`);
      if (code !== 0 && !killed) throw new Error(`${plan.file} ended with ${signal ?? code}`);
    },
  };
}

async function endOf(child: ChildProcess): Promise<{ code: number | null; signal: string | null }> {
  return await new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('exit', (code, signal) => resolve({ code, signal }));
  });
}

async function withDeadline<T>(work: Promise<T>, ms: number, what: string): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${what} within ${ms} ms`)), ms);
  });
  return await Promise.race([work, late]).finally(() => clearTimeout(timer));
}

function jsonLine(text: string): Record<string, unknown> | null {
  if (!text.startsWith('{')) return null;
  try {
    return JSON.parse(text) as Record<string, unknown>;
  } catch {
    return null;
  }
}

/** Linux counts a process's time in these; the kernel's interface fixes it at 100 a second. */
const ticksPerSecond = 100;

/**
 * User and system time, in seconds, that a process and its children have used so far; a child that has ended counts
 * if its parent waited for it. Null where it cannot be known: no such process, or no Linux.
 */
export function cpuSeconds(pid: number | null): number | null {
  if (pid === null) return null;
  const parents = new Map<number, number[]>();
  for (const other of processIds()) {
    const parent = statOf(other)?.parent;
    if (parent !== undefined) parents.set(parent, [...(parents.get(parent) ?? []), other]);
  }
  const own = statOf(pid);
  if (own === null) return null;
  const below = (id: number): number =>
    (parents.get(id) ?? []).reduce((sum, child) => sum + (statOf(child)?.ticks ?? 0) + below(child), 0);
  return (own.ticks + below(pid)) / ticksPerSecond;
}

/** CPU seconds of several processes by name; ends with what each used in between. Null where it cannot be known. */
export function measureCpu(
  pids: Readonly<Record<string, number | null>>,
): () => Record<string, number | null> {
  const sample = (): [string, number | null][] =>
    Object.entries(pids).map(([name, pid]) => [name, cpuSeconds(pid)]);
  const before = new Map(sample());
  return () =>
    Object.fromEntries(
      sample().map(([name, after]) => {
        const start = before.get(name) ?? null;
        return [name, after === null || start === null ? null : Math.round((after - start) * 100) / 100];
      }),
    );
}

/** The process that listens on this URL's host and port, or null when it is not on this machine or not ours to see. */
export function pidOfServer(url: string, defaultPort: number): number | null {
  const { hostname, port } = new URL(url);
  if (!isHere(hostname.replace(/^\[|\]$/g, ''))) return null;
  const sockets = new Set(listeners(port === '' ? defaultPort : Number(port)));
  if (sockets.size === 0) return null;
  const pid = processIds().find((id) => descriptors(id).some((target) => sockets.has(target)));
  // A container's port is held by a process that only passes bytes on: its time would say nothing.
  return pid === undefined || read(`/proc/${pid}/comm`).trim() === 'docker-proxy' ? null : pid;
}

function isHere(host: string): boolean {
  if (host === 'localhost') return true;
  return Object.values(networkInterfaces()).some((addresses) =>
    addresses?.some(({ address }) => address === host),
  );
}

/** The sockets that listen on a port, as `/proc/<pid>/fd` names them. */
function listeners(port: number): string[] {
  const lines = `${read('/proc/net/tcp')}\n${read('/proc/net/tcp6')}`.split('\n');
  return lines
    .map((line) => line.trim().split(/\s+/))
    .filter(([, local = '', , state]) => state === '0A' && parseInt(local.split(':')[1] ?? '', 16) === port)
    .map((columns) => `socket:[${columns[9]}]`);
}

function statOf(pid: number): { parent: number; ticks: number } | null {
  const text = read(`/proc/${pid}/stat`);
  // The name, in parentheses, may hold anything; the state follows, then the parent.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  if (fields.length < 15) return null;
  const ticks = fields.slice(11, 15).reduce((sum, field) => sum + Number(field), 0);
  return { parent: Number(fields[1]), ticks };
}

function processIds(): number[] {
  try {
    return readdirSync('/proc').map(Number).filter(Number.isInteger);
  } catch {
    return [];
  }
}

function descriptors(pid: number): string[] {
  const folder = `/proc/${pid}/fd`;
  try {
    return readdirSync(folder).map((name) => linkOf(`${folder}/${name}`));
  } catch {
    return [];
  }
}

function linkOf(path: string): string {
  try {
    return readlinkSync(path);
  } catch {
    return '';
  }
}

/** Empty when the file is not there, or its process has ended meanwhile. */
function read(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}
