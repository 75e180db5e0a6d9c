import { createHash } from 'node:crypto';
import type { Redis } from 'ioredis';

/** Requests of one size, one after another: `times` single grabs, or a batch of `size` users. */
export interface Run {
  size: number;
  times: number;
}

export interface WindowLimits {
  /** How many are admitted in one window. */
  limit: number;
  windowMs: number;
}

/** What a window had room for. */
export interface Taken {
  /** How many of each run's requests are admitted: the first ones, whole. */
  admitted: number[];
  /** How long this window still lasts. */
  leftMs: number;
}

/**
 * Counts requests in the window of a key, and only those that it admits. The key holds how many were admitted, and
 * ends with the window. Whatever else is found in it (no end, an end further away than a window, a negative number,
 * text, another type) is no count of ours and begins a fresh window; so a wrong counter costs one window at the most.
 *
 * A request that is larger than the limit goes in while there is any room: it could never fit, and could never be
 * admitted if it had to find the window empty, because repeats by one user can keep it from ever being so.
 */
const script = `
local limit, window = tonumber(ARGV[1]), tonumber(ARGV[2])
local value, left = redis.pcall('GET', KEYS[1]), redis.call('PTTL', KEYS[1])
local counts = type(value) == 'string' and (value == '0' or string.match(value, '^[1-9]%d*$') ~= nil)
local running = counts and left > 0 and left <= window
local used = 0
if running then used = tonumber(value) else left = window end
local answer, added = {left}, 0
for i = 3, #ARGV, 2 do
  local size, times = tonumber(ARGV[i]), tonumber(ARGV[i + 1])
  local room = limit - used - added
  local fitting = math.floor(room / size)
  if size > limit and room > 0 then fitting = 1 end
  fitting = math.max(0, math.min(fitting, times))
  added = added + fitting * size
  answer[#answer + 1] = fitting
end
if not running then
  redis.call('SET', KEYS[1], added, 'PX', window)
elseif added > 0 then
  redis.call('INCRBY', KEYS[1], added)
end
return answer
`;
const sha = createHash('sha1').update(script).digest('hex');

/** Takes room for the runs, in their order, in one step of Redis. Rejects when Redis fails or answers nonsense. */
export async function takeFromWindow(
  redis: Redis,
  key: string,
  { limit, windowMs }: WindowLimits,
  runs: readonly Run[],
): Promise<Taken> {
  const args = [key, limit, windowMs, ...runs.flatMap(({ size, times }) => [size, times])];
  return takenOf(await evaluate(redis, args), runs);
}

/** By the script's hash; Redis forgets scripts when it restarts or is told to, and then it gets the text again. */
async function evaluate(redis: Redis, args: (string | number)[]): Promise<unknown> {
  try {
    return await redis.evalsha(sha, 1, ...args);
  } catch (error) {
    if (!(error instanceof Error && error.message.startsWith('NOSCRIPT'))) throw error;
    return await redis.eval(script, 1, ...args);
  }
}

function takenOf(reply: unknown, runs: readonly Run[]): Taken {
  const numbers = Array.isArray(reply) ? reply.map(Number) : [];
  const [leftMs, ...admitted] = numbers;
  const sound =
    leftMs !== undefined && leftMs > 0 && admitted.length === runs.length && numbers.every(Number.isInteger);
  if (!sound) throw new Error('Redis answered what the script does not return');
  return { admitted, leftMs };
}
