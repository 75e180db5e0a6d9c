import { assert } from 'chai';
import { deposit, reverse, transfer, withdraw } from '../../src/ledger/move.ts';
import { balanceOf, statementOf } from '../../src/ledger/read.ts';
import { Refusal, type RefusalCode } from '../../src/refusal.ts';
import { TestBooks } from '../support/service.ts';

const max = Number.MAX_SAFE_INTEGER;

describe('ledger', () => {
  let books: TestBooks;
  before(async () => {
    books = await TestBooks.open();
  });
  afterEach(async () => await books.assertClean());
  after(async () => await books.close());

  const put = async (owner: string, amount: number, reference: string, currency = 'CNY', clientId = 'c') =>
    await books.database.withTransaction(
      't',
      async (tx) => await deposit(tx, { clientId, owner, currency, amount, reference }),
    );
  const take = async (owner: string, amount: number, reference: string) =>
    await books.database.withTransaction(
      't',
      async (tx) => await withdraw(tx, { clientId: 'c', owner, currency: 'CNY', amount, reference }),
    );
  const refused = async (code: RefusalCode, work: Promise<unknown>): Promise<void> => {
    try {
      await work;
    } catch (error) {
      assert.instanceOf(error, Refusal);
      assert.equal(error.code, code);
      return;
    }
    assert.fail(`not refused with ${code}`);
  };

  it('first use of an account is safe under a race, and a reference moves money once', async () => {
    const made = await Promise.all(
      Array.from({ length: 40 }, async (_, index) => await put('fresh', 10, `r${index % 20}`)),
    );
    assert.equal(made.filter(({ created }) => created).length, 20);
    assert.equal(await books.balance('fresh'), 200);
    const rows = await books.query<{ n: number }>("SELECT COUNT(*) AS n FROM accounts WHERE owner = 'fresh'");
    assert.equal(rows[0]?.n, 1);
    await refused('REFERENCE_REUSED', put('fresh', 11, 'r1'));
    await refused('REFERENCE_REUSED', put('other', 10, 'r1'));
    // Another client's reference is another reference.
    assert.isTrue((await put('fresh', 10, 'r1', 'CNY', 'd')).created);
  });

  it('case 9: a balance of 100 pays exactly 10 of 50 parallel packets of 10', async () => {
    await put('spender', 100, 'spender');
    const outcomes = await Promise.allSettled(
      Array.from(
        { length: 50 },
        async () => await books.packet({ senderId: 'spender', totalAmount: 10, shareCount: 2 }),
      ),
    );
    const codes = outcomes.map((outcome) =>
      outcome.status === 'fulfilled' ? 'created' : (outcome.reason as Refusal).code,
    );
    assert.equal(codes.filter((code) => code === 'created').length, 10);
    assert.equal(codes.filter((code) => code === 'INSUFFICIENT_FUNDS').length, 40);
    assert.equal(await books.balance('spender'), 0);
  });

  it('who lacks the funds is refused before anything is split or stored', async () => {
    await put('hollow', 1, 'hollow');
    let splits = 0;
    const count = (): Float64Array => {
      splits += 1;
      return new Float64Array();
    };
    const asked = { senderId: 'hollow', totalAmount: 1_000_000, shareCount: 1_000_000 };
    await refused('INSUFFICIENT_FUNDS', books.packet(asked, { split: count }));
    assert.equal(splits, 0);
  });

  it('a withdrawal never overdraws, whatever the race', async () => {
    await put('drawer', 50, 'drawer');
    const outcomes = await Promise.allSettled(
      Array.from({ length: 30 }, async (_, index) => await take('drawer', 5, `w${index}`)),
    );
    assert.equal(outcomes.filter(({ status }) => status === 'fulfilled').length, 10);
    assert.equal(await books.balance('drawer'), 0);
    await refused('INSUFFICIENT_FUNDS', take('nobody ever seen', 1, 'w'));
  });

  it('case 14: amounts at 2^53 − 1 are exact, and a currency never passes it', async () => {
    await put('whale', max - 5, 'big', 'XAU');
    await refused('LIMIT_EXCEEDED', put('shrimp', 6, 'six', 'XAU'));
    await put('shrimp', 5, 'five', 'XAU');
    assert.equal(await balanceOf(books.database, 'whale', 'XAU'), max - 5);
    const [row] = await books.query<{ sum: string }>(
      "SELECT SUM(balance) AS sum FROM accounts WHERE currency = 'XAU' AND kind <> 'system'",
    );
    assert.equal(BigInt(row?.sum ?? 0), BigInt(max));
    await refused('LIMIT_EXCEEDED', put('shrimp', 1, 'one', 'XAU'));
    // A whole currency in one packet, granted to one person.
    const { items } = await statementOf(books.database, 'whale', 'XAU', { before: max, limit: 10 });
    assert.equal(items[0]?.amount, max - 5);
  });

  it('a transfer can be reversed once, a reversal cannot, and a packet’s money not at all', async () => {
    await put('giver', 100, 'giver');
    const move = {
      clientId: 'c',
      from: 'giver',
      to: 'taker',
      currency: 'CNY',
      amount: 60,
      reference: 'gift',
    };
    const twice = await Promise.all(
      [1, 2].map(
        async () => await books.database.withTransaction('t', async (tx) => await transfer(tx, move)),
      ),
    );
    assert.sameMembers(
      twice.map(({ created }) => created),
      [false, true],
    );
    const undo = async (reason: string, reference: string) =>
      await books.database.withTransaction('t', async (tx) => await reverse(tx, { reason, reference }));
    const outcomes = await Promise.allSettled(
      Array.from({ length: 10 }, async () => await undo('transfer', 'c:gift')),
    );
    assert.equal(outcomes.filter(({ status }) => status === 'fulfilled').length, 1);
    assert.equal(await books.balance('giver'), 100);
    const [reversal] = await books.query<{ reference: string }>(
      "SELECT reference FROM transfers WHERE reason = 'reversal'",
    );
    await refused('ALREADY_REVERSED', undo('transfer', 'c:gift'));
    await refused('NOT_REVERSIBLE', undo('reversal', reversal?.reference ?? ''));
    const id = await books.packet({ senderId: 'giver', totalAmount: 10, shareCount: 1 });
    await refused('NOT_REVERSIBLE', undo('fund', id));
    await refused('NOT_FOUND', undo('transfer', 'no such'));
  });

  it('a balance at a past time is the sum of the transfers until then, and the statement pages through all', async () => {
    for (let index = 1; index <= 7; index += 1) await put('reader', index, `s${index}`);
    const rows = await books.query<{ created_at: Date; amount: number }>(
      `SELECT t.created_at, t.amount FROM transfers t JOIN accounts a ON a.id = t.credit_account_id WHERE a.owner = 'reader' ORDER BY t.id`,
    );
    let sum = 0;
    for (const [index, row] of rows.entries()) {
      sum += row.amount;
      const next = rows[index + 1];
      // Two transfers may share a millisecond; then the earlier one has no time of its own.
      if (next !== undefined && next.created_at.getTime() === row.created_at.getTime()) continue;
      assert.equal(await balanceOf(books.database, 'reader', 'CNY', row.created_at), sum);
    }
    assert.equal(await balanceOf(books.database, 'reader', 'CNY', new Date('2001-01-01')), 0);
    const seen: number[] = [];
    let before: number | null = max;
    while (before !== null) {
      const page: Awaited<ReturnType<typeof statementOf>> = await statementOf(
        books.database,
        'reader',
        'CNY',
        { before, limit: 3 },
      );
      seen.push(...page.items.map(({ amount }) => amount));
      before = page.next;
    }
    assert.deepEqual(seen, [7, 6, 5, 4, 3, 2, 1]);
  });
});
