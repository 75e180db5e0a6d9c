import { createCipheriv } from 'node:crypto';

const zeroIv = Buffer.alloc(16);
const blockBytes = 8_192;
const zeros = Buffer.alloc(blockBytes);

/**
 * A stream of uniform integers that anybody can recompute from the seed: the keystream of AES-256 in counter mode,
 * with the 32-byte seed as key, a zero IV and counter, read as big-endian unsigned 64-bit draws, eight bytes each,
 * in order. One draw is used for each try, whatever the range.
 */
export class Generator {
  readonly #cipher;
  #block: Buffer = Buffer.alloc(0);
  #offset = 0;

  constructor(seed: Uint8Array) {
    if (seed.length !== 32) throw new Error(`a seed has 32 bytes, not ${seed.length}`);
    this.#cipher = createCipheriv('aes-256-ctr', seed, zeroIv);
  }

  /**
   * A uniform integer in [0, bound), for 1 ≤ bound ≤ 2^53. The top 53 bits of a draw are taken (exact in a
   * number); those at or above the largest multiple of `bound` are thrown away and drawn again, so no value is
   * favoured.
   */
  below(bound: number): number {
    if (!(Number.isSafeInteger(bound) || bound === 2 ** 53) || bound < 1)
      throw new Error(`a bound of ${bound}`);
    const limit = 2 ** 53 - (2 ** 53 % bound);
    for (;;) {
      const draw = this.#draw53();
      if (draw < limit) return draw % bound;
    }
  }

  /** A uniform integer in [low, high], both included. */
  between(low: number, high: number): number {
    return low + this.below(high - low + 1);
  }

  #draw53(): number {
    if (this.#offset === this.#block.length) {
      this.#block = this.#cipher.update(zeros);
      this.#offset = 0;
    }
    const high = this.#block.readUInt32BE(this.#offset);
    const low = this.#block.readUInt32BE(this.#offset + 4);
    this.#offset += 8;
    return high * 2 ** 21 + (low >>> 11);
  }
}
