import type { Fault } from '../refusal.ts';
import { shownKey, unknownField } from './faults.ts';

/** How deep arrays and objects may be nested. */
const maxDepth = 32;
/** A body with more faults than these is hostile; the scan goes on without noting them. */
const maxFaults = 1_000;

/** An object or array that the scan is inside of. */
interface Frame {
  /** The keys seen so far; null in an array. */
  keys: Set<string> | null;
  /** Where the scan stands in it: a key, or an index. */
  key: string | number;
}

/**
 * Reads JSON without letting anything be lost on the way. `JSON.parse` judges the grammar; a second, linear and
 * non-recursive pass over the text finds what parsing hides: duplicate and `__proto__` keys, numbers that do not
 * survive (a fraction that rounds to an integer, an integer beyond 2^53 − 1), lone surrogates, and depth.
 * Throws SyntaxError when the text is no JSON.
 */
export function parseStrictJson(text: string, root = 'body'): { value: unknown; faults: Fault[] } {
  const value: unknown = JSON.parse(text);
  return { value, faults: new Scan(text, root).run() };
}

const quote = 0x22;
const comma = 0x2c;
const minus = 0x2d;
const zero = 0x30;
const nine = 0x39;
const openBracket = 0x5b;
const backslash = 0x5c;
const closeBracket = 0x5d;
const openBrace = 0x7b;
const closeBrace = 0x7d;

/** One pass over a text that is known to be JSON; that is why it need not look where a value may stand. */
class Scan {
  readonly #text: string;
  readonly #root: string;
  readonly #faults: Fault[] = [];
  readonly #frames: Frame[] = [];
  #at = 0;
  #expectsKey = false;

  constructor(text: string, root: string) {
    this.#text = text;
    this.#root = root;
  }

  run(): Fault[] {
    while (this.#at < this.#text.length) {
      const code = this.#text.charCodeAt(this.#at);
      if (code === quote) this.#string();
      else if (code === minus || (code >= zero && code <= nine)) this.#number();
      else {
        if (!this.#structure(code)) return this.#faults;
        this.#at += 1;
      }
    }
    return this.#faults;
  }

  /** Steps into or out of an object or array, or on inside of it; false when it is too deep to go on. */
  #structure(code: number): boolean {
    const frame = this.#frames.at(-1);
    if (code === openBrace || code === openBracket) {
      if (this.#frames.length === maxDepth) {
        this.#fault(`is nested deeper than ${maxDepth} levels`);
        return false;
      }
      const isObject = code === openBrace;
      this.#frames.push(isObject ? { keys: new Set(), key: '' } : { keys: null, key: 0 });
      this.#expectsKey = isObject;
    } else if (code === closeBrace || code === closeBracket) {
      this.#frames.pop();
      this.#expectsKey = false;
    } else if (code === comma && frame !== undefined) {
      if (typeof frame.key === 'number') frame.key += 1;
      else this.#expectsKey = true;
    }
    return true;
  }

  #string(): void {
    const start = this.#at;
    let at = start + 1;
    let escaped = false;
    for (let code = this.#text.charCodeAt(at); code !== quote; code = this.#text.charCodeAt(at)) {
      if (code === backslash) escaped = true;
      at += code === backslash ? 2 : 1;
    }
    this.#at = at + 1;
    const raw = this.#text.slice(start + 1, at);
    const content = escaped ? (JSON.parse(`"${raw}"`) as string) : raw;
    if (this.#expectsKey) this.#key(content);
    if (!content.isWellFormed()) this.#fault('holds half of a surrogate pair');
  }

  #key(key: string): void {
    this.#expectsKey = false;
    const frame = this.#frames.at(-1);
    if (frame === undefined || frame.keys === null) return;
    frame.key = key;
    if (key === '__proto__') this.#fault(unknownField);
    if (frame.keys.has(key)) this.#fault('appears more than once');
    frame.keys.add(key);
  }

  #number(): void {
    const start = this.#at;
    let at = start + 1;
    while (isNumberPart(this.#text.charCodeAt(at))) at += 1;
    this.#at = at;
    if (!survives(this.#text.slice(start, at))) this.#fault('is a number that cannot be represented exactly');
  }

  #fault(message: string): void {
    if (this.#faults.length === maxFaults) return;
    const steps = this.#frames.map(({ key }) => (typeof key === 'string' ? shownKey(key) : String(key)));
    this.#faults.push({ path: [this.#root, ...steps].join('.'), message });
  }
}

/** Digits, signs, the point and the exponent's letter. */
function isNumberPart(code: number): boolean {
  // '+' ',' '-' '.' lie side by side; the comma ends a number.
  return (
    (code >= zero && code <= nine) ||
    (code >= 0x2b && code <= 0x2e && code !== comma) ||
    (code | 0x20) === 0x65
  );
}

/**
 * Whether a number literal means what JSON.parse makes of it, as far as integers go: an integer literal must be
 * within ±(2^53 − 1), and a literal with a fraction must not have become an integer. Plain fractions pass here;
 * the schemas refuse them where an integer is due.
 */
function survives(literal: string): boolean {
  // Up to 15 digits without a point or an exponent are exact: what nearly every number is.
  if (literal.length <= 15 && /^-?\d+$/.test(literal)) return true;
  const value = Number(literal);
  if (!Number.isInteger(value)) return Number.isFinite(value);
  if (!Number.isSafeInteger(value)) return false;
  const [, whole = '', fraction = '', exponent = '0'] =
    /^-?(\d+)(?:\.(\d+))?(?:[eE]([-+]?\d+))?$/.exec(literal) ?? [];
  const digits = `${whole}${fraction}`;
  let significant = digits.length;
  while (significant > 0 && digits.charCodeAt(significant - 1) === zero) significant -= 1;
  if (significant === 0) return true;
  // The last digit that is not zero must stand at or above the decimal point.
  return Number(exponent) - fraction.length + (digits.length - significant) >= 0;
}
