import type { Generator } from './generator.ts';
import type { SplitRequest } from './split.ts';

/** How often an exact draw is repeated before a maximum is enforced by repair: for up to 10,000 shares. */
const exactTries = 64;
const sharesForAllTries = 10_000;

/**
 * Shares by cutting a line at distinct random points, not yet shuffled. The request must be feasible.
 *
 * Without a maximum every way to write the total as n shares of at least the minimum is equally likely. With one,
 * a draw that breaks it is thrown away whole and drawn again, so all ways within the bounds are equally likely;
 * where the mean lies nearer to the maximum, what each share lacks to the maximum is drawn instead of what it has
 * above the minimum (the same set of ways, seen from the other end), since such a draw breaks the bound less often.
 * After `exactTries` failures (fewer for many shares, to bound the time) the last draw is repaired: see `repair`.
 */
export function lineCut(request: SplitRequest, generator: Generator): Float64Array {
  const { totalAmount, shareCount, minShare, maxShare } = request;
  const fromTop = maxShare !== null && isNearerToMaximum(totalAmount, shareCount, minShare, maxShare);
  const sum = fromTop
    ? Number(BigInt(shareCount) * BigInt(maxShare) - BigInt(totalAmount))
    : totalAmount - shareCount * minShare;
  const cap = maxShare === null ? sum : maxShare - minShare;
  const parts = cappedParts(sum, shareCount, cap, generator);
  return parts.map((part) => (fromTop ? maxShare - part : minShare + part));
}

/** In BigInt, because the products may pass 2^53. */
function isNearerToMaximum(total: number, count: number, min: number, max: number): boolean {
  return 2n * BigInt(total) > BigInt(count) * (BigInt(min) + BigInt(max));
}

/** `count` integers in [0, cap] that add up to `sum`, which must not be above count × cap. */
function cappedParts(sum: number, count: number, cap: number, generator: Generator): Float64Array {
  const tries = Math.max(1, Math.floor(exactTries / Math.ceil(count / sharesForAllTries)));
  for (let attempt = 1; ; attempt += 1) {
    const parts = uniformParts(sum, count, generator);
    if (parts.every((part) => part <= cap)) return parts;
    if (attempt === tries) return repair(parts, cap);
  }
}

/**
 * `count` integers ≥ 0 that add up to `sum`, each such sequence equally likely: one is added to each, the line of
 * sum + count is cut at count − 1 distinct inner points, and the one is taken off again.
 */
function uniformParts(sum: number, count: number, generator: Generator): Float64Array {
  const line = sum + count;
  const cuts = distinctCuts(line - 1, count - 1, generator);
  const parts = new Float64Array(count);
  let before = 0;
  for (const [index, cut] of cuts.entries()) {
    parts[index] = cut - before - 1;
    before = cut;
  }
  parts[count - 1] = line - before - 1;
  return parts;
}

/**
 * Cuts what is above the cap, and gives it to the others in proportion to the room they have, rounded down; what
 * rounding leaves goes one fen each to the first that still have room. Deterministic, and linear in the number of
 * parts whatever the amounts. No position gains: parts are exchangeable before it, and shares are shuffled after it.
 *
 * Handing out even parts in rounds until nothing is left took a minute for 30,000 shares of a total near n × max:
 * the rounds grow with the square root of the amounts.
 */
function repair(parts: Float64Array, cap: number): Float64Array {
  let excess = 0;
  let room = 0n;
  for (const part of parts) {
    if (part > cap) excess += part - cap;
    else room += BigInt(cap - part);
  }
  let left = excess;
  for (const [index, part] of parts.entries()) {
    const given = part < cap ? Number((BigInt(cap - part) * BigInt(excess)) / room) : 0;
    parts[index] = Math.min(part, cap) + given;
    left -= given;
  }
  // Each part that rounding shortened has room for one more, and fewer fen are left than there are such parts.
  for (let index = 0; left > 0; index += 1) {
    const part = parts[index];
    if (part === undefined) throw new Error('the parts have no room for their sum');
    if (part === cap) continue;
    parts[index] = part + 1;
    left -= 1;
  }
  return parts;
}

/** Up to this many times as many places as cuts, a bit for each place takes less room and time than sorting. */
const placesPerCutInBitmap = 32;

/**
 * `count` distinct integers of [1, range], ascending, every subset equally likely: values are drawn until `count`
 * different ones are there, repeats are ignored. If more than half of the range is wanted, those left out are drawn.
 */
function distinctCuts(range: number, count: number, generator: Generator): Float64Array {
  return range <= placesPerCutInBitmap * count
    ? cutsByBitmap(range, count, generator)
    : cutsBySorting(range, count, generator);
}

function cutsByBitmap(range: number, count: number, generator: Generator): Float64Array {
  const marks = new Uint8Array(Math.ceil((range + 1) / 8));
  const isMarked = (value: number): boolean => (((marks[value >>> 3] ?? 0) >>> (value & 7)) & 1) === 1;
  const leaveOut = count > range / 2;
  for (let missing = leaveOut ? range - count : count; missing > 0;) {
    const value = generator.between(1, range);
    if (isMarked(value)) continue;
    marks[value >>> 3] = (marks[value >>> 3] ?? 0) | (1 << (value & 7));
    missing -= 1;
  }
  return readBitmap(marks, range, leaveOut, count);
}

/** The `count` values of [1, range] that are marked, or those that are not if `leaveOut`. */
function readBitmap(marks: Uint8Array, range: number, leaveOut: boolean, count: number): Float64Array {
  const cuts = new Float64Array(count);
  const flip = leaveOut ? 0xff : 0;
  let found = 0;
  for (let byte = 0; byte < marks.length; byte += 1) {
    let wanted = (marks[byte] ?? 0) ^ flip;
    // 0 lies before the range: it is never marked, so it must be dropped if the unmarked are wanted.
    if (byte === 0) wanted &= ~1;
    for (let value = byte * 8; wanted !== 0 && value <= range; value += 1, wanted >>>= 1) {
      if ((wanted & 1) === 0) continue;
      cuts[found] = value;
      found += 1;
    }
  }
  return cuts;
}

/**
 * Draws `count` values and sorts them; the few repeats among them are then made good one by one, so it stops at the
 * very draw at which one by one from the start would have stopped.
 */
function cutsBySorting(range: number, count: number, generator: Generator): Float64Array {
  const cuts = new Float64Array(count);
  for (let index = 0; index < count; index += 1) cuts[index] = generator.between(1, range);
  cuts.sort();
  const first = cuts.subarray(0, dropRepeats(cuts));
  if (first.length === count) return cuts;
  const further = new Set<number>();
  while (first.length + further.size < count) {
    const value = generator.between(1, range);
    if (!isAmong(first, value)) further.add(value);
  }
  let end = first.length;
  for (const value of further) {
    cuts[end] = value;
    end += 1;
  }
  return cuts.sort();
}

/** Moves the distinct values of a sorted array to its front, in order; returns how many there are. */
function dropRepeats(sorted: Float64Array): number {
  let kept = 0;
  for (let index = 0; index < sorted.length; index += 1) {
    const value = sorted[index] ?? 0;
    if (kept > 0 && value === sorted[kept - 1]) continue;
    sorted[kept] = value;
    kept += 1;
  }
  return kept;
}

/** Binary search. */
function isAmong(sorted: Float64Array, value: number): boolean {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((sorted[middle] ?? 0) < value) low = middle + 1;
    else high = middle;
  }
  return sorted[low] === value;
}
