import type { Fault } from '../refusal.ts';

/** How deep arrays and objects may be nested. */
const maxDepth = 32;
const maxFaults = 20;

interface Frame {
  kind: 'object' | 'array';
  keys: Set<string> | null;
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
  return { value, faults: scan(text, root) };
}

function scan(text: string, root: string): Fault[] {
  const faults: Fault[] = [];
  const frames: Frame[] = [];
  let expectsKey = false;
  const path = (): string => [root, ...frames.map(({ key }) => String(key))].join('.');
  const fault = (message: string): void => {
    if (faults.length < maxFaults) faults.push({ path: path(), message });
  };
  let at = 0;
  while (at < text.length) {
    const char = text[at];
    const frame = frames.at(-1);
    if (char === '"') {
      const end = endOfString(text, at);
      const raw = text.slice(at, end);
      const content = raw.includes('\\') ? (JSON.parse(raw) as string) : raw.slice(1, -1);
      if (expectsKey && frame !== undefined) {
        frame.key = printable(content);
        if (content === '__proto__') fault('is not a known field');
        if (frame.keys?.has(content) === true) fault('appears more than once');
        frame.keys?.add(content);
        expectsKey = false;
      }
      if (!content.isWellFormed()) fault('holds half of a surrogate pair');
      at = end;
    } else if (char === '{' || char === '[') {
      if (frames.length === maxDepth) {
        fault(`is nested deeper than ${maxDepth} levels`);
        return faults;
      }
      const isObject = char === '{';
      frames.push({
        kind: isObject ? 'object' : 'array',
        keys: isObject ? new Set() : null,
        key: isObject ? '' : 0,
      });
      expectsKey = isObject;
      at += 1;
    } else if (char === '}' || char === ']') {
      frames.pop();
      expectsKey = false;
      at += 1;
    } else if (char === ',') {
      if (frame?.kind === 'object') expectsKey = true;
      else if (frame !== undefined) frame.key = Number(frame.key) + 1;
      at += 1;
    } else if (char !== undefined && /[-0-9]/.test(char)) {
      const end = endOfNumber(text, at);
      if (!survives(text.slice(at, end))) fault('is a number that cannot be represented exactly');
      at = end;
    } else {
      at += 1;
    }
  }
  return faults;
}

function endOfString(text: string, start: number): number {
  let at = start + 1;
  while (text[at] !== '"') at += text[at] === '\\' ? 2 : 1;
  return at + 1;
}

function endOfNumber(text: string, start: number): number {
  let at = start + 1;
  while (at < text.length && /[-+.eE0-9]/.test(text[at] ?? '')) at += 1;
  return at;
}

/**
 * Whether a number literal means what JSON.parse makes of it, as far as integers go: an integer literal must be
 * within ±(2^53 − 1), and a literal with a fraction must not have become an integer. Plain fractions pass here;
 * the schemas refuse them where an integer is due.
 */
function survives(literal: string): boolean {
  const value = Number(literal);
  if (!Number.isFinite(value)) return false;
  if (!Number.isInteger(value)) return true;
  if (!Number.isSafeInteger(value)) return false;
  const match = /^-?(\d+)(?:\.(\d+))?(?:[eE]([-+]?\d+))?$/.exec(literal);
  if (match === null) return false;
  const [, whole = '', fraction = '', exponent = '0'] = match;
  const digits = `${whole}${fraction}`;
  const significant = digits.replace(/0+$/, '');
  if (/^0*$/.test(digits)) return true;
  // The last non-zero digit must stand at or above the decimal point.
  const zerosBelow = digits.length - significant.length;
  return Number(exponent) - fraction.length + zerosBelow >= 0;
}

function printable(key: string): string {
  return key.replaceAll(/[^\x20-\x7e]/g, '?').slice(0, 40);
}
