import { createHash } from 'node:crypto';
import { splitFaults, splitMethods, splitShares, type SplitMethod, type SplitRequest } from './split.ts';
import { verifySplit } from './verify.ts';

/** Hex SHA-256 of the 32 raw seed bytes followed by the packet id in UTF-8: published before anybody may grab. */
export function commitmentOf(seed: Uint8Array, packetId: string): string {
  return createHash('sha256').update(seed).update(packetId, 'utf8').digest('hex');
}

/** What `GET /v1/packets/{id}/proof` tells. */
export interface Proof {
  packetId: string;
  /** Hex. */
  seed: string;
  commitment: string;
  split: SplitMethod;
  minShare: number;
  maxShare: number | null;
  totalAmount: number;
  shareCount: number;
  shares: number[];
}

/**
 * Recomputes a split from its proof; returns every fault, so an empty list means that the split was fair. A proof may
 * come from anywhere: parameters out of range are faults, not exceptions, and nothing is computed for more shares
 * than the proof itself lists.
 */
export function checkProof(proof: Proof): string[] {
  const faults: string[] = [];
  if (!/^[0-9a-f]{64}$/.test(proof.seed)) return ['the seed is not 32 bytes in hex'];
  const seed = Buffer.from(proof.seed, 'hex');
  if (commitmentOf(seed, proof.packetId) !== proof.commitment) {
    faults.push('the seed does not match the commitment that was published when the packet was created');
  }
  const request: SplitRequest = {
    method: proof.split,
    totalAmount: proof.totalAmount,
    shareCount: proof.shareCount,
    minShare: proof.minShare,
    maxShare: proof.maxShare,
  };
  if (!splitMethods.includes(proof.split)) return [...faults, 'the split method is unknown'];
  if (splitFaults(request).length > 0) return [...faults, 'the parameters of the packet admit no split'];
  const wrong = verifySplit(request, proof.shares);
  if (wrong !== null) faults.push(wrong);
  if (proof.shares.length !== proof.shareCount) return faults;
  const expected = splitShares(request, seed);
  const different = proof.shares.findIndex((share, index) => share !== expected[index]);
  if (different !== -1)
    faults.push(
      `share ${different + 1} is ${proof.shares[different]}, the seed gives ${expected[different]}`,
    );
  return faults;
}
