import { spawn, spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';

/** A process by its number and the moment it started: numbers are given again to others. */
export interface ProcessId {
  pid: number;
  since: string;
}

export function self(): ProcessId {
  return { pid: process.pid, since: startOf(process.pid) ?? '' };
}

/** Whether that very process still runs; one that ended but was not collected by its parent does not. */
export function isAlive({ pid, since }: ProcessId): boolean {
  return startOf(pid) === since;
}

/** When this process started, in whatever form the system tells it; null if there is none, or it has ended. */
function startOf(pid: number): string | null {
  if (!Number.isInteger(pid) || pid <= 0) return null;
  if (process.platform === 'linux') {
    try {
      // After the program's name, which may hold blanks and brackets: the state, and 19 fields later the start.
      const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1)?.split(' ') ?? [];
      return fields[0] === 'Z' || fields[0] === 'X' ? null : (fields[19] ?? null);
    } catch {
      return null;
    }
  }
  const told = spawnSync('ps', ['-o', 'lstart=', '-p', String(pid)], { encoding: 'utf8' });
  return told.status === 0 ? told.stdout.trim() : null;
}

/** Whether a running process was started with exactly this argument. */
export function hasArgument(pid: number, argument: string): boolean {
  if (process.platform === 'linux') {
    try {
      return readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0').includes(argument);
    } catch {
      return false;
    }
  }
  return spawnSync('ps', ['-o', 'command=', '-p', String(pid)], { encoding: 'utf8' }).stdout.includes(
    argument,
  );
}

export interface Finished {
  /** The exit code; null when the program could not be run, was killed, or took longer than allowed. */
  status: number | null;
  stdout: string;
  stderr: string;
}

/** Runs a program to its end, or kills it after `timeoutMs`. Never throws. */
export async function run(
  program: string,
  args: readonly string[],
  options: { timeoutMs: number; env?: NodeJS.ProcessEnv },
): Promise<Finished> {
  return await new Promise((resolve) => {
    const child = spawn(program, args, {
      stdio: ['ignore', 'pipe', 'pipe'],
      timeout: options.timeoutMs,
      killSignal: 'SIGKILL',
      env: options.env ?? process.env,
    });
    let stdout = '';
    let stderr = '';
    child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text));
    child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
    child.on('error', (error) => resolve({ status: null, stdout, stderr: error.message }));
    child.on('close', (status) => {
      const late =
        status === null ? `\n${program} was ended after at most ${options.timeoutMs / 1000} s` : '';
      resolve({ status, stdout, stderr: `${stderr}${late}` });
    });
  });
}

/** The last lines of a text, for an error message. */
export function tail(text: string, lines = 8): string {
  return text.trim().split('\n').slice(-lines).join('\n');
}

export async function pause(ms: number): Promise<void> {
  await new Promise((done) => {
    setTimeout(done, ms);
  });
}
