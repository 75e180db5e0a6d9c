import type { Fault } from '../../refusal.ts';
import { Generator } from './generator.ts';

export type SplitMethod = 'double-mean' | 'line-cut' | 'equal';

/** Amounts are integers in minor units (fen), at most 2^53 − 1. */
export interface SplitRequest {
  method: SplitMethod;
  totalAmount: number;
  shareCount: number;
  minShare: number;
  /** Null: a share may be as large as the total allows. */
  maxShare: number | null;
}

/** Why a split is impossible; empty when it is possible. Products are compared as BigInt: they may pass 2^53. */
export function splitFaults({ totalAmount, shareCount, minShare, maxShare }: SplitRequest): Fault[] {
  const faults: Fault[] = [];
  const least = BigInt(shareCount) * BigInt(minShare);
  if (BigInt(totalAmount) < least) {
    faults.push({
      path: 'body.totalAmount',
      message: `must be at least ${least} for ${shareCount} shares of at least ${minShare}`,
    });
  }
  if (maxShare === null) return faults;
  if (maxShare < minShare) {
    faults.push({ path: 'body.maxShare', message: `must be at least minShare, which is ${minShare}` });
    return faults;
  }
  const most = BigInt(shareCount) * BigInt(maxShare);
  if (BigInt(totalAmount) > most) {
    faults.push({
      path: 'body.maxShare',
      message: `${shareCount} shares of at most ${maxShare} hold ${most}, less than totalAmount`,
    });
  }
  return faults;
}

/**
 * The shares in the order in which they are claimed, determined by request and seed alone. Integers throughout;
 * 8 bytes a share. Throws when `splitFaults` has something to say.
 */
export function splitShares(request: SplitRequest, seed: Uint8Array): Float64Array {
  if (splitFaults(request).length > 0) throw new Error('the split is infeasible');
  const generator = new Generator(seed);
  switch (request.method) {
    case 'equal':
      return equal(request);
    case 'double-mean':
      return shuffle(doubleMean(request, generator), generator);
    case 'line-cut':
      return shuffle(lineCut(request, generator), generator);
  }
}

/** total / n, and the remainder one fen each to the first shares. */
function equal({ totalAmount, shareCount }: SplitRequest): Float64Array {
  const remainder = totalAmount % shareCount;
  const quotient = (totalAmount - remainder) / shareCount;
  return new Float64Array(shareCount).map((_, index) => quotient + (index < remainder ? 1 : 0));
}

/**
 * Each share uniform in [min, 2 × mean of what remains], the last takes the rest. At each step the range is cut to
 * what leaves a feasible rest (at least min, at most max for each share after it). The range is kept symmetric
 * about the mean of what remains, so that an expected share is the mean at every position: with minimum m the
 * upper end is 2 × mean − m, which is 2 × mean of what remains above the minimum.
 */
function doubleMean(
  { totalAmount, shareCount, minShare, maxShare }: SplitRequest,
  generator: Generator,
): Float64Array {
  const shares = new Float64Array(shareCount);
  let rest = totalAmount;
  for (let index = 0; index < shareCount - 1; index += 1) {
    const left = shareCount - index;
    const after = left - 1;
    const mean = Math.floor(rest / left);
    // Both products are at most `rest`, or irrelevant when larger: min × after ≤ rest always holds.
    const low = maxShare === null ? minShare : Math.max(minShare, restBeyond(rest, after, maxShare));
    const most = rest - minShare * after;
    // 2 × mean may pass 2^53; `most` never does.
    const doubled = mean >= 2 ** 52 ? most : doubledMean(rest, left, minShare);
    const high = Math.max(low, Math.min(most, maxShare ?? most, doubled));
    shares[index] = generator.between(low, high);
    rest -= shares[index] ?? 0;
  }
  shares[shareCount - 1] = rest;
  return shares;
}

/** What must be taken now so that `after` shares of at most `maxShare` can hold the rest; exact although the product may not be. */
function restBeyond(rest: number, after: number, maxShare: number): number {
  // rest − after × maxShare > 0 only if the product is below rest, and then it is exact.
  const product = after * maxShare;
  return product >= rest ? 0 : rest - product;
}

/** 2 × (mean of what remains above the minimum) + the minimum, rounded down. */
function doubledMean(rest: number, left: number, minShare: number): number {
  const above = rest - minShare * left;
  const quotient = Math.floor(above / left);
  const remainder = above - quotient * left;
  return minShare + 2 * quotient + (2 * remainder >= left ? 1 : 0);
}

/** How often an exact draw is repeated before a maximum is enforced by repair. */
const exactTries = 64;

/**
 * n − 1 distinct cut points in a line; the differences are the shares: every composition of the total into n shares
 * of at least the minimum is equally likely. A maximum is honoured by drawing again, which keeps that exact among
 * the compositions within the maximum; where it is so tight that 64 draws all fail, the last one is repaired: what
 * exceeds the maximum is moved, share by share, into the room of uniformly chosen others.
 */
function lineCut(request: SplitRequest, generator: Generator): Float64Array {
  const { maxShare, shareCount } = request;
  // A draw of many shares is worth fewer repeats: one that is too tight for 64 tries of few is hopeless for many.
  const tries = maxShare === null ? 1 : Math.max(1, Math.floor(exactTries / Math.ceil(shareCount / 10_000)));
  let shares = composition(request, generator);
  for (let attempt = 1; attempt < tries && exceeds(shares, maxShare); attempt += 1) {
    shares = composition(request, generator);
  }
  if (maxShare !== null && exceeds(shares, maxShare)) repair(shares, maxShare, generator);
  return shares;
}

function composition(
  { totalAmount, shareCount, minShare }: SplitRequest,
  generator: Generator,
): Float64Array {
  // Each share keeps min − 1 aside; the rest, at least one a share, is cut at distinct points in [1, line − 1].
  const line = totalAmount - shareCount * (minShare - 1);
  const cuts = distinctCuts(line - 1, shareCount - 1, generator);
  const shares = new Float64Array(shareCount);
  let before = 0;
  for (let index = 0; index < shareCount; index += 1) {
    const cut = index < cuts.length ? (cuts[index] ?? 0) : line;
    shares[index] = cut - before + minShare - 1;
    before = cut;
  }
  return shares;
}

/** `count` distinct integers of [1, range], sorted: every subset equally likely (Floyd's algorithm). */
function distinctCuts(range: number, count: number, generator: Generator): Float64Array {
  const chosen = new Set<number>();
  for (let upper = range - count + 1; upper <= range; upper += 1) {
    const candidate = generator.between(1, upper);
    chosen.add(chosen.has(candidate) ? upper : candidate);
  }
  return Float64Array.from(chosen).sort();
}

function exceeds(shares: Float64Array, maxShare: number | null): boolean {
  return maxShare !== null && shares.some((share) => share > maxShare);
}

/** Moves what exceeds the maximum into others' room, visiting them in a random order; room is always enough. */
function repair(shares: Float64Array, maxShare: number, generator: Generator): void {
  let excess = 0;
  for (let index = 0; index < shares.length; index += 1) {
    const over = (shares[index] ?? 0) - maxShare;
    if (over <= 0) continue;
    excess += over;
    shares[index] = maxShare;
  }
  const order = shuffle(Float64Array.from(shares.keys()), generator);
  // An even part for everybody with room, until all is placed: no position and no share is favoured.
  while (excess > 0) {
    const part = Math.max(1, Math.floor(excess / shares.length));
    for (const index of order) {
      const room = Math.min(maxShare - (shares[index] ?? 0), part, excess);
      shares[index] = (shares[index] ?? 0) + room;
      excess -= room;
    }
  }
}

/** Fisher–Yates, in place. */
function shuffle(shares: Float64Array, generator: Generator): Float64Array {
  for (let index = shares.length - 1; index > 0; index -= 1) {
    const other = generator.below(index + 1);
    const kept = shares[index] ?? 0;
    shares[index] = shares[other] ?? 0;
    shares[other] = kept;
  }
  return shares;
}
