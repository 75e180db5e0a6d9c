import { assert } from 'chai';
import { Authenticator, type StoredKey } from '../../src/http/auth.ts';
import { issueToken, userOfToken } from '../../src/http/tokens.ts';
import { Refusal } from '../../src/refusal.ts';
import { eachLane } from '../support/lanes.ts';
import {
  Door,
  faultPaths,
  keys,
  keyText,
  problemIn,
  rootKey,
  tokenSecret,
  type Answered,
} from './support.ts';

const soon = (): Date => new Date(Date.now() + 60_000);
const alice = (): string => issueToken(tokenSecret, 'alice', soon());

eachLane('who may call what', (lane) => {
  let door: Door;
  before(async () => void (door = await Door.open([], undefined, lane)));
  after(async () => await door.close());

  const grab = async (authorization: string | null, body = '{"userId":"alice"}'): Promise<Answered> =>
    await door.call('POST', '/v1/packets/p/grabs', { body, headers: { authorization } });

  it('answers 401 to every credential that is missing, malformed, unknown, revoked, forged or over', async () => {
    const { id } = keys.grabber;
    const token = alice();
    const refused = [
      null,
      '',
      'Bearer',
      'Bearer ',
      `Basic ${rootKey}`,
      rootKey,
      `Bearer ${rootKey}x`,
      `Bearer ${rootKey.toUpperCase()}`,
      `Bearer ${'x'.repeat(5_000)}`,
      `Bearer llk_${id}_${'x'.repeat(32)}`,
      `Bearer llk_${'f'.repeat(16)}_${'x'.repeat(32)}`,
      `Bearer llk_${id}`,
      `Bearer ${keyText(keys.revoked)}`,
      `Bearer ${token.slice(0, -4)}AAAA`,
      `Bearer ${token}.x`,
      `Bearer llt_${Buffer.from('{"u":"alice","e":9999999999999}').toString('base64url')}.`,
      `Bearer ${issueToken('another secret', 'alice', soon())}`,
      `Bearer ${issueToken(tokenSecret, 'alice', new Date(Date.now() - 1))}`,
    ];
    for (const authorization of refused) {
      const answer = await grab(authorization);
      assert.equal(problemIn(answer).code, 'UNAUTHORIZED', String(authorization));
      assert.equal(answer.status, 401);
      assert.equal(answer.headers.get('www-authenticate'), 'Bearer');
    }
  });

  it('lets keys do what their scopes say, and admin everything', async () => {
    for (const [credential, grabs, reads] of [
      [rootKey, 201, 200],
      [keyText(keys.grabber), 201, 403],
      [keyText(keys.reader), 403, 200],
    ] as const) {
      const authorization = `bearer ${credential}`;
      assert.equal((await grab(authorization)).status, grabs);
      const read = await door.call('GET', '/v1/accounts/alice/transfers', { headers: { authorization } });
      assert.equal(read.status, reads);
      if (reads === 403) assert.include(problemIn(read).detail, 'accounts:read');
    }
  });

  it('lets a participant act for its own user only, and only where participants may', async () => {
    const authorization = `Bearer ${alice()}`;
    assert.equal((await grab(authorization)).status, 201);
    assert.include(door.reached.at(-1), { clientId: 'user:alice' });
    for (const userId of ['bob', 'Alice', 'alicé'])
      assert.equal(problemIn(await grab(authorization, JSON.stringify({ userId }))).code, 'FORBIDDEN');
    const own = await door.call('GET', '/v1/accounts/alice/transfers', { headers: { authorization } });
    assert.equal(own.status, 200);
    const other = await door.call('GET', '/v1/accounts/bob/transfers', { headers: { authorization } });
    assert.equal(other.status, 403);
    const body = '{"senderId":"alice","totalAmount":1}';
    assert.equal((await door.call('POST', '/v1/packets', { body, headers: { authorization } })).status, 403);
  });

  it('asks who calls before it looks at anything else', async () => {
    const wrong = {
      body: 'x'.repeat(70_000),
      headers: { 'content-type': 'text/plain', authorization: null as string | null },
    };
    assert.equal((await door.call('POST', '/v1/packets/p/grabs', wrong)).status, 401);
    wrong.headers.authorization = `Bearer ${keyText(keys.reader)}`;
    assert.equal((await door.call('POST', '/v1/packets/p/grabs', wrong)).status, 403);
    wrong.headers.authorization = `Bearer ${alice()}`;
    assert.equal((await door.call('POST', '/v1/packets/p/grabs', wrong)).status, 413);
    wrong.body = '{}';
    assert.equal((await door.call('POST', '/v1/packets/p/grabs', wrong)).status, 415);
    wrong.headers['content-type'] = 'application/json';
    assert.deepEqual(faultPaths(await door.call('POST', '/v1/packets/p/grabs', wrong)), ['body.userId']);
  });
});

describe('the authenticator', () => {
  const deps = { apiKey: null, tokenSecret };
  const header = `Bearer ${keyText(keys.grabber)}`;

  it('asks once for all who ask at once, and believes the answer for a while', async () => {
    let asked = 0;
    let answer: (key: StoredKey) => void = () => {};
    const authenticator = new Authenticator({
      ...deps,
      findKey: async () => {
        asked += 1;
        return await new Promise((resolve) => (answer = resolve));
      },
    });
    const waiting = Array.from({ length: 20 }, async () => await authenticator.principalOf(header));
    answer(keys.grabber);
    for (const principal of await Promise.all(waiting))
      assert.equal(principal.clientId, `key:${keys.grabber.id}`);
    await authenticator.principalOf(header);
    assert.equal(asked, 1);
  });

  it('believes for a while that a key is unknown, but does not remember a failed look-up', async () => {
    const outcomes = [
      async () => await Promise.reject(new Error('no database')),
      async () => await Promise.resolve(null),
    ];
    let asked = 0;
    const authenticator = new Authenticator({
      ...deps,
      findKey: async () => {
        const outcome = outcomes[asked];
        asked += 1;
        return (await outcome?.()) ?? null;
      },
    });
    const errorOf = async (): Promise<unknown> => {
      try {
        return await authenticator.principalOf(header);
      } catch (error) {
        return error;
      }
    };
    assert.notInstanceOf(await errorOf(), Refusal);
    for (let times = 0; times < 3; times += 1) assert.instanceOf(await errorOf(), Refusal);
    assert.equal(asked, 2);
  });

  it('compares a key of the environment by its bytes, whatever it holds', async () => {
    const apiKey = 'llk_ schlüssel 密钥';
    const authenticator = new Authenticator({
      ...deps,
      apiKey,
      findKey: async () => await Promise.resolve(null),
    });
    // A header arrives with each byte as one character.
    const sent = Buffer.from(apiKey).toString('latin1');
    const principal = await authenticator.principalOf(`Bearer ${sent}`);
    assert.equal(principal.clientId, 'environment');
  });

  it('drops scopes that this version does not know', async () => {
    const findKey = async (): Promise<StoredKey> =>
      await Promise.resolve({ ...keys.grabber, scopes: ['packets:grab', 'fly', ''] });
    const principal = await new Authenticator({ ...deps, findKey }).principalOf(header);
    assert.deepInclude(principal, { scopes: new Set(['packets:grab'] as const) });
  });
});

describe('participant tokens', () => {
  it('name their user until their end, and not at it', () => {
    const end = new Date(1_000_000);
    for (const user of ['alice', '😀"%', 'a.b']) {
      const token = issueToken(tokenSecret, user, end);
      assert.match(token, /^llt_[\w-]+\.[\w-]+$/);
      assert.equal(userOfToken(tokenSecret, token, new Date(999_999)), user);
      assert.isNull(userOfToken(tokenSecret, token, end));
    }
  });

  it('are void after any change of a character', () => {
    const token = issueToken(tokenSecret, 'alice', new Date(1_000_000));
    // The last character of 32 bytes in base64url carries two bits that mean nothing.
    for (let at = 0; at < token.length - 1; at += 1) {
      const changed = token.slice(0, at) + (token[at] === 'A' ? 'B' : 'A') + token.slice(at + 1);
      assert.isNull(userOfToken(tokenSecret, changed, new Date(0)), changed);
    }
  });
});
