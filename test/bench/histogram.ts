/** Bits of a value that are kept: 128 steps in each power of two, so a bucket is at most 0.8 % wide. */
const stepBits = 7;
const steps = 1 << stepBits;
/** Values up to 2^31 µs, about 36 minutes; longer ones count as that. */
const largest = 2 ** 31 - 1;

/** Counts durations in buckets that grow with the value: 1 % resolution, no allocation while it counts. */
export class Histogram {
  readonly #counts = new Uint32Array(steps * (31 - stepBits + 2));
  #total = 0;
  #max = 0;

  get total(): number {
    return this.#total;
  }

  /** Counts one duration in milliseconds; kept as whole microseconds. */
  record(ms: number): void {
    const value = Math.min(largest, Math.max(0, Math.round(ms * 1000)));
    // Below 2 × steps each value has a bucket of its own; above, the leading bits name the bucket.
    const shift = value < 2 * steps ? 0 : 31 - Math.clz32(value) - stepBits;
    const bucket = shift * steps + (value >>> shift);
    this.#counts[bucket] = (this.#counts[bucket] ?? 0) + 1;
    this.#total += 1;
    if (ms > this.#max) this.#max = ms;
  }

  /** The duration in milliseconds that this part (0 to 1) of the durations does not exceed; 0 when there are none. */
  quantile(part: number): number {
    const wanted = Math.max(1, Math.ceil(this.#total * part));
    let seen = 0;
    for (const [bucket, count] of this.#counts.entries()) {
      seen += count;
      if (count > 0 && seen >= wanted) return Math.min(upperMs(bucket), this.max);
    }
    return 0;
  }

  /** The longest duration in milliseconds, exact to a microsecond. */
  get max(): number {
    return Math.round(this.#max * 1000) / 1000;
  }
}

function upperMs(bucket: number): number {
  const shift = bucket < 2 * steps ? 0 : Math.floor(bucket / steps) - 1;
  const leading = bucket - shift * steps;
  return ((leading + 1) * 2 ** shift - 1) / 1000;
}
