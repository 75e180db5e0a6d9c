import { assert } from 'chai';
import * as fc from 'fast-check';
import { parseStrictJson } from '../../src/http/json.ts';

const pathsOf = (text: string): string[] => parseStrictJson(text).faults.map(({ path }) => path);

describe('strict JSON', () => {
  it('takes every integer that is exact, however it is spelled', () => {
    for (const text of [
      '0',
      '-0',
      '1',
      '1e3',
      '1E3',
      '5.0',
      '5.000',
      '1.5e1',
      '100e-2',
      '0.0',
      '0e9',
      '0e-400',
      '9007199254740991',
      '-9007199254740991',
      '9007199254740991.0',
      '0.00012e5',
      '999999999999999',
    ])
      assert.deepEqual(pathsOf(text), [], text);
  });

  it('refuses numbers that parsing would change into an integer', () => {
    for (const text of [
      '100.00000000000000001',
      '4503599627370497.4',
      '4503599627370497.0000001',
      '1e-400',
      '-1e-400',
      '1e400',
      '-1e400',
      '9007199254740992',
      '9007199254740993',
      '-9007199254740992',
      '9007199254740991.4',
      '1e16',
      '1e21',
      '0.99999999999999999999',
      '123456789012345678901234567890',
    ])
      assert.deepEqual(pathsOf(`{"a":[0,${text}]}`), ['body.a.1'], text);
  });

  it('leaves plain fractions to the schemas, which know where an integer is due', () => {
    for (const text of ['0.1', '1.5', '1.4503599627370497', '1e-3']) {
      const { value, faults } = parseStrictJson(text);
      assert.deepEqual(faults, []);
      assert.isFalse(Number.isInteger(value), text);
    }
  });

  it('agrees with exact arithmetic on which decimals are integers', () => {
    const digits = fc.bigInt({ min: 1n, max: 10n ** 22n });
    fc.assert(
      fc.property(digits, fc.integer({ min: -25, max: 4 }), (mantissa, exponent) => {
        const literal = `${mantissa}e${exponent}`;
        const scale = 10n ** BigInt(Math.abs(exponent));
        const isExact = exponent >= 0 || mantissa % scale === 0n;
        const exact = exponent >= 0 ? mantissa * scale : mantissa / scale;
        const { value, faults } = parseStrictJson(literal);
        // What passes here and is an integer must be that very integer.
        if (faults.length === 0 && Number.isInteger(value))
          assert.isTrue(isExact && BigInt(value as number) === exact, literal);
        if (isExact && exact <= BigInt(Number.MAX_SAFE_INTEGER)) assert.deepEqual(faults, [], literal);
      }),
      { numRuns: 2_000 },
    );
  });

  it('finds duplicate keys, also when one of them is escaped, but only within one object', () => {
    assert.deepEqual(pathsOf('{"a":1,"a":2}'), ['body.a']);
    assert.deepEqual(pathsOf('{"a":1,"\\u0061":2}'), ['body.a']);
    assert.deepEqual(pathsOf('{"x":[{"a":1},{"a":2,"b":{"a":1}}],"a":1}'), []);
    assert.deepEqual(pathsOf('{"x":[{},{"b":1,"c":[],"b":1}]}'), ['body.x.1.b']);
  });

  it('finds __proto__ keys and touches no prototype', () => {
    for (const key of ['__proto__', '\\u005f_proto__']) {
      const { value, faults } = parseStrictJson(`{"a":{"${key}":{"polluted":true}}}`);
      assert.deepEqual(
        faults.map(({ path }) => path),
        ['body.a.__proto__'],
      );
      assert.notProperty({}, 'polluted');
      assert.equal(Object.getPrototypeOf((value as { a: unknown }).a), Object.prototype);
    }
  });

  it('finds lone surrogates in strings and in keys, and takes pairs', () => {
    assert.deepEqual(pathsOf('{"a":"\\ud83d\\ude00"}'), []);
    assert.deepEqual(pathsOf('{"a":["x","\\ud83d"]}'), ['body.a.1']);
    assert.deepEqual(pathsOf('["\\ude00\\ud83d"]'), ['body.0']);
    assert.lengthOf(pathsOf('{"\\ud83d":1}'), 1);
  });

  it('is not misled by what looks like structure inside strings', () => {
    assert.deepEqual(pathsOf('{"a":"{\\"a\\":1e999,[\\\\","b":"\\\\"}'), []);
    assert.deepEqual(pathsOf('{"a,":"],","b":[",",1e999]}'), ['body.b.1']);
  });

  it('allows 32 levels and survives 64 KiB of brackets', () => {
    assert.deepEqual(pathsOf('['.repeat(32) + ']'.repeat(32)), []);
    assert.lengthOf(pathsOf('['.repeat(33) + ']'.repeat(33)), 1);
    assert.lengthOf(pathsOf('['.repeat(32_768) + ']'.repeat(32_768)), 1);
    assert.lengthOf(pathsOf('{"a":'.repeat(10_000) + '1' + '}'.repeat(10_000)), 1);
    assert.throws(() => parseStrictJson('['.repeat(65_536)), SyntaxError);
  });

  it('finds nothing in what JSON.stringify wrote of safe values, and keeps the value', () => {
    const value = fc.letrec((tie) => ({
      any: fc.oneof(
        { maxDepth: 4 },
        fc.maxSafeInteger(),
        fc.string({ unit: 'binary' }),
        fc.boolean(),
        fc.constant(null),
        fc.array(tie('any')),
        fc.dictionary(fc.string({ unit: 'grapheme' }), tie('any')),
      ),
    })).any;
    fc.assert(
      fc.property(value, (written) => {
        const text = JSON.stringify(written);
        if (text.includes('__proto__')) return;
        const read = parseStrictJson(text);
        assert.deepEqual(read.faults, []);
        assert.equal(JSON.stringify(read.value), text);
      }),
      { numRuns: 500 },
    );
  });
});
