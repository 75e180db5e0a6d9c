import type { SplitRequest } from './split.ts';

/**
 * An independent check of a split: count, minimum, maximum and sum, none of it shared with the code that split.
 * Returns what is wrong, or null. The sum is a BigInt, so it cannot round.
 */
export function verifySplit(request: SplitRequest, shares: ArrayLike<number>): string | null {
  if (shares.length !== request.shareCount) return `${shares.length} shares instead of ${request.shareCount}`;
  let sum = 0n;
  for (let index = 0; index < shares.length; index += 1) {
    const share = shares[index];
    if (share === undefined || !Number.isSafeInteger(share)) return `share ${index + 1} is no exact integer`;
    if (share < 1 || share < request.minShare) return `share ${index + 1} is below the minimum`;
    if (request.maxShare !== null && share > request.maxShare)
      return `share ${index + 1} is above the maximum`;
    sum += BigInt(share);
  }
  return sum === BigInt(request.totalAmount)
    ? null
    : `the shares sum to ${sum} instead of ${request.totalAmount}`;
}
