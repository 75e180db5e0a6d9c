import type { Fault } from '../../refusal.ts';
import { Generator } from './generator.ts';
import { lineCut } from './line-cut.ts';

export const splitMethods = ['double-mean', 'line-cut', 'equal'] as const;
export type SplitMethod = (typeof splitMethods)[number];

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
export function splitFaults(request: SplitRequest): Fault[] {
  const faults = rangeFaults(request);
  if (faults.length > 0) return faults;
  const { totalAmount, shareCount, minShare, maxShare } = request;
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

/** What is no positive exact integer: nothing can be computed with it, not even whether the split is possible. */
function rangeFaults({ totalAmount, shareCount, minShare, maxShare }: SplitRequest): Fault[] {
  return Object.entries({ totalAmount, shareCount, minShare, maxShare: maxShare ?? 1 })
    .filter(([, value]) => !Number.isSafeInteger(value) || value < 1)
    .map(([name]) => ({ path: `body.${name}`, message: 'must be an integer from 1 to 2^53 − 1' }));
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
 * upper end is 2 × mean − m, which is 2 × mean of what remains above the minimum. Where a maximum cuts the range it
 * is no longer symmetric, and the last drawn get more: the shuffle afterwards is what keeps positions equal then.
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
    // Both products are at most `rest`, or irrelevant when larger: min × after ≤ rest always holds.
    const low = maxShare === null ? minShare : Math.max(minShare, restBeyond(rest, after, maxShare));
    const most = rest - minShare * after;
    // Never below `low`, which is at most the mean of what remains, since a share of more than the mean is never forced.
    const high = Math.min(most, maxShare ?? most, doubledMean(rest, left, minShare));
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
