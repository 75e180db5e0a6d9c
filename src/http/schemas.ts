import { z } from 'zod';
import { Refusal } from '../refusal.ts';

/** Pieces that routes share. Amounts are integers in minor units. */

export const amount = z
  .int()
  .min(1)
  .max(Number.MAX_SAFE_INTEGER)
  .describe('minor units (fen), 1 to 2^53 - 1');

/** Text that people and programs may compare by its bytes: no control characters, nothing invisible at its ends. */
export function plainText(maxCharacters: number): z.ZodString {
  return z
    .string()
    .min(1)
    .refine((text) => text.isWellFormed(), 'must not hold half of a surrogate pair')
    .refine((text) => codePoints(text) <= maxCharacters, `must have at most ${maxCharacters} characters`)
    .refine((text) => !/\p{Cc}/u.test(text), 'must not hold control characters')
    .refine((text) => text === text.trim(), 'must not begin or end with white space');
}

function codePoints(text: string): number {
  return Array.from(text).length;
}

export const userId = plainText(64)
  .describe('1 to 64 characters, compared byte for byte')
  .meta({ examples: ['alice'] });
export const reference = plainText(128).describe(
  "the caller's own name for this movement; unique per client",
);
export const currency = z
  .string()
  .regex(/^[A-Z]{3}$/, 'must be three capital letters')
  .default('CNY');

/** Lenient on purpose: an id of any other shape is simply not found. */
export const packetId = z.string();

/** RFC 3339 with an offset; years that the database can hold. */
export const isoTime = z.iso
  .datetime({ offset: true })
  .transform((text, context) => {
    const date = new Date(text);
    const year = date.getUTCFullYear();
    if (Number.isNaN(year) || year < 2000 || year > 9000) {
      context.addIssue({ code: 'custom', message: 'must be a time between the years 2000 and 9000' });
      return z.NEVER;
    }
    return date;
  })
  .describe('RFC 3339, such as 2030-01-31T12:00:00.000Z');

/** A time in an answer: UTC with milliseconds. */
export const time = z.iso.datetime({ precision: 3 });

/** Well-formed, but not what this list gave out. */
export function foreignCursor(): Refusal {
  return new Refusal('INVALID_REQUEST', {
    faults: [{ path: 'query.cursor', message: 'is not a cursor of this list' }],
  });
}

export const cursor = z
  .string()
  .regex(/^[A-Za-z0-9_-]{1,128}$/, 'is not a cursor of this list')
  .describe('nextCursor of the page before');
export const limit = z
  .string()
  .regex(/^\d{1,4}$/, 'must be a whole number')
  .transform(Number)
  .pipe(z.int().min(1).max(200))
  .default(50)
  .describe('1 to 200')
  .meta({ inputSchema: { type: 'integer', minimum: 1, maximum: 200, default: 50 } });

/** A page of a list; `nextCursor` is null at its end. */
export function listOf<Item extends z.ZodType>(
  item: Item,
): z.ZodObject<{ items: z.ZodArray<Item>; nextCursor: z.ZodNullable<z.ZodString> }, z.core.$strict> {
  return z.strictObject({ items: z.array(item), nextCursor: z.string().nullable() });
}
