import { assert } from 'chai';
import { Generator } from '../../src/packet/split/generator.ts';

const seed = Buffer.alloc(32, 7);

describe('split: generator', () => {
  it('is the keystream that openssl gives: AES-256-CTR, zero IV, the top 53 bits of each eight bytes', () => {
    // head -c 16448 /dev/zero | openssl enc -aes-256-ctr -K 0707…07 -iv 00…00
    const generator = new Generator(seed);
    const draws = Array.from({ length: 1_026 }, () => generator.below(2 ** 53));
    assert.deepEqual(
      draws.slice(0, 4),
      [362_554_580_594_076, 4_377_995_925_581_220, 3_337_473_848_171_558, 724_551_723_200_161],
    );
    // The 1,024th and 1,025th lie on both sides of the end of the first block that is asked of the cipher.
    assert.deepEqual(draws.slice(1_023), [4_104_228_665_664_761, 6_791_101_375_460_458, 523_372_319_725_688]);
  });

  it('favours no value where 2^53 is no multiple of the bound', () => {
    // Without drawing again, values below 2^51 would come half of the time instead of a third.
    const generator = new Generator(seed);
    const draws = 30_000;
    let low = 0;
    for (let draw = 0; draw < draws; draw += 1) {
      if (generator.below(3 * 2 ** 51) < 2 ** 51) low += 1;
    }
    assert.closeTo(low / draws, 1 / 3, 0.015);
  });

  it('stays inside its bounds, ends included', () => {
    const generator = new Generator(seed);
    const seen = new Set(Array.from({ length: 200 }, () => generator.between(-1, 2)));
    assert.sameMembers([...seen], [-1, 0, 1, 2]);
    assert.equal(generator.between(5, 5), 5);
    assert.equal(generator.below(1), 0);
  });

  it('refuses seeds of another length and bounds it cannot serve', () => {
    assert.throws(() => new Generator(new Uint8Array(31)), '32 bytes');
    const generator = new Generator(seed);
    for (const bound of [0, -1, 1.5, NaN, Infinity, 2 ** 53 + 2])
      assert.throws(() => generator.below(bound), 'bound');
  });
});
