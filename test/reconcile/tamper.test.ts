import { assert } from 'chai';
import { listRules, reconcile } from '../../src/reconcile/reconcile.ts';
import { reverse } from '../../src/ledger/move.ts';
import { people, TestBooks } from '../support/service.ts';

/**
 * One change behind the service's back for each rule, made as the administrator with constraints out of the way;
 * the rule's file must find it. Some damage breaks several rules at once; then the others may speak too.
 */
describe('reconciliation files find tampering', () => {
  let books: TestBooks;
  let open: string;
  let soldOut: string;
  let refunded: string;
  let invited: string;

  beforeEach(async () => {
    books = await TestBooks.open();
    await books.fund('sender', 100_000);
    const equal = { method: 'equal' as const, totalAmount: 1_000 };
    open = await books.packet({ ...equal, shareCount: 10 });
    soldOut = await books.packet({ ...equal, shareCount: 5 });
    refunded = await books.packet({ ...equal, shareCount: 10 });
    invited = await books.packet({ ...equal, shareCount: 10, audience: ['p-0', 'p-1'] });
    const desk = books.desk();
    for (const id of [open, soldOut, refunded, invited])
      await Promise.all(people(5, 'p').map(async (user) => await desk.grab(id, user)));
    await books.closePacket(refunded);
    await books.fund('wrong', 7);
    const [deposit] = await books.query<{ reference: string }>(
      "SELECT reference FROM transfers WHERE reason = 'deposit' AND amount = 7",
    );
    await books.database.withTransaction(
      't',
      async (tx) => await reverse(tx, { reason: 'deposit', reference: deposit?.reference ?? '' }),
    );
    await books.assertClean();
    await books.query('SET foreign_key_checks = 0, unique_checks = 0');
    const isMariaDb = books.database.engine.name === 'MariaDB';
    if (isMariaDb) await books.query('SET check_constraint_checks = 0');
  });
  afterEach(async () => await books.close());

  /** MySQL cannot switch checks off for a session, so the one in the way is dropped. */
  const withoutCheck = async (table: string, name: string): Promise<void> => {
    await books.query(`ALTER TABLE ${table} DROP CONSTRAINT ${name}`);
  };

  const tampers: Record<string, () => Promise<unknown>> = {
    '01_packet_shares_sum': async () =>
      await books.query('DELETE FROM packet_shares WHERE packet_id = ? AND seq = 10', [open]),
    '02_share_bounds': async () =>
      await books.query('UPDATE packets SET min_share = 101 WHERE id = ?', [open]),
    '03_grab_matches_share': async () =>
      await books.query('UPDATE packet_shares SET claimed = 0 WHERE packet_id = ? AND seq = 1', [open]),
    '04_claimed_share_has_grab': async () =>
      await books.query('UPDATE packet_shares SET claimed = 1 WHERE packet_id = ? AND seq = 9', [open]),
    '05_one_grab_per_user': async () => {
      await books.query('ALTER TABLE grabs DROP KEY grabs_user_once');
      await books.query("UPDATE grabs SET user_id = 'p-0' WHERE packet_id = ? AND seq = 2", [open]);
    },
    '06_packet_counters': async () =>
      await books.query('UPDATE packets SET claimed_amount = claimed_amount - 1 WHERE id = ?', [open]),
    '07_packet_money': async () =>
      await books.query("UPDATE transfers SET amount = 999 WHERE reason = 'fund' AND reference = ?", [open]),
    '08_balance_is_sum': async () =>
      await books.query(
        "UPDATE accounts SET balance = balance + IF(owner = 'p-0', 1, -1) WHERE owner IN ('p-0', 'p-1')",
      ),
    '09_no_negative_balance': async () => {
      await withoutCheck('accounts', 'accounts_balance_not_negative');
      await books.query("UPDATE accounts SET balance = -1 WHERE owner = 'wrong'");
    },
    '10_currency_sums_to_zero': async () =>
      await books.query("UPDATE accounts SET balance = balance + 1 WHERE owner = 'p-0'"),
    '11_transfer_shape': async () =>
      await books.query("UPDATE transfers SET currency = 'USD' WHERE reason = 'grab' LIMIT 1"),
    '12_grab_has_transfer': async () =>
      await books.query("UPDATE grabs SET user_id = 'thief' WHERE packet_id = ? AND seq = 3", [open]),
    '13_transfer_has_cause': async () =>
      await books.query(
        "UPDATE transfers SET reference = CONCAT(reference, '9') WHERE reason = 'grab' LIMIT 1",
      ),
    '14_grab_within_window': async () =>
      await books.query('UPDATE packets SET opens_at = opens_at + INTERVAL 1 HOUR WHERE id = ?', [open]),
    '15_packet_status': async () =>
      await books.query(
        "UPDATE packets SET status = 'REFUNDED', finished_at = UTC_TIMESTAMP(3) WHERE id = ?",
        [open],
      ),
    '16_reversal_once': async () =>
      await books.query("UPDATE transfers SET reference = '999999' WHERE reason = 'reversal'"),
    '17_overdue_refund': async () =>
      await books.query(
        'UPDATE packets SET created_at = created_at - INTERVAL 9 HOUR, opens_at = opens_at - INTERVAL 9 HOUR, expires_at = opens_at + INTERVAL 1 HOUR WHERE id = ?',
        [open],
      ),
    '18_escrow_belongs_to_packet': async () =>
      await books.query("UPDATE accounts SET owner = 'nobody' WHERE owner = ?", [open]),
    '19_invited_only': async () =>
      await books.query("DELETE FROM packet_audience WHERE packet_id = ? AND user_id = 'p-0'", [invited]),
    '20_outbox_complete': async () =>
      await books.query("DELETE FROM outbox_messages WHERE topic = 'packet.grabbed' AND subject_id = ?", [
        soldOut,
      ]),
    '21_idempotency_answered': async () =>
      await books.query('UPDATE idempotency_keys SET status = NULL LIMIT 1'),
  };

  it('every file has its tamper', async () => {
    assert.deepEqual(Object.keys(tampers), await listRules());
  });

  for (const [rule, tamper] of Object.entries(tampers)) {
    it(`${rule} finds its tamper`, async () => {
      await tamper();
      const reports = await reconcile(books.database);
      const spoke = reports.filter(({ findings }) => findings.length > 0).map((report) => report.rule);
      assert.include(spoke, rule);
    });
  }
});
