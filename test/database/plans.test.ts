import { assert } from 'chai';
import * as ledger from '../../src/ledger/sql.ts';
import * as packet from '../../src/packet/sql.ts';
import { people, TestBooks } from '../support/service.ts';

/**
 * The plans of the hot statements. A filesort under FOR UPDATE locks every candidate; a scan grows with the table.
 * Both engines' EXPLAIN names table, key and extras alike.
 */
describe('plans of hot statements', () => {
  let books: TestBooks;
  let id: string;
  before(async () => {
    books = await TestBooks.open();
    await books.fund('sender', 1_000_000);
    for (let index = 0; index < 20; index += 1) await books.packet({ totalAmount: 1_000, shareCount: 100 });
    id = await books.packet({ totalAmount: 10_000, shareCount: 3_000 });
    const desk = books.desk();
    await Promise.all(people(2_000, 'plan').map(async (user) => await desk.grab(id, user)));
    await books.query('ANALYZE TABLE accounts, transfers, packets, packet_shares, grabs');
  });
  after(async () => await books.close());

  const users = people(64, 'plan');
  const hot: [name: string, text: string, values: () => unknown[], keys: Record<string, string>][] = [
    ['packet.lock', packet.lockPacket.text, () => [id], { packets: 'PRIMARY' }],
    ['packet.lock_due', packet.lockDuePacket.text, () => [], { packets: 'packets_due' }],
    [
      'packet.lock_free',
      packet.lockFreePackets.text,
      () => [[id, '01M8QNQXPHXEAR1V9RG1F10WV1', '01M8QNQXPHXEAR1V9RG1F10WV2']],
      { packets: 'PRIMARY' },
    ],
    [
      'packet.claim_shares',
      packet.claimShares(1).text,
      () => [id, 2_001, 2_064],
      { packet_shares: 'PRIMARY' },
    ],
    [
      'packet.claim_shares of two packets',
      packet.claimShares(2).text,
      () => [id, 2_001, 2_064, '01M8QNQXPHXEAR1V9RG1F10WV1', 1, 3],
      { packet_shares: 'PRIMARY' },
    ],
    [
      'packet.find_grabs',
      packet.findGrabs.text,
      () => [JSON.stringify(users), id],
      { grabs: 'grabs_user_once' },
    ],
    [
      'packet.look_users_up',
      packet.lookUsersUp.text,
      () => [JSON.stringify([[id, users]])],
      {
        packets: 'PRIMARY',
        grabs: 'grabs_user_once',
        accounts: 'accounts_owner_once',
        packet_shares: 'PRIMARY',
        packet_audience: 'PRIMARY',
      },
    ],
    [
      'packet.pay_grabs',
      packet.payGrabs(1).text,
      () => [id, 1, 64],
      { grabs: 'PRIMARY', accounts: 'accounts_owner_once' },
    ],
    [
      'packet.count_claims',
      packet.countClaims.text,
      () => [JSON.stringify([[id, 1, 2, 2, 0]]), null],
      { packets: 'PRIMARY' },
    ],
    [
      'ledger.find_accounts',
      ledger.findAccounts.text,
      () => [users, 'CNY', 'wallet'],
      { accounts: 'accounts_owner_once' },
    ],
    [
      'ledger.find_account_ids',
      ledger.findAccountIds.text,
      () => [JSON.stringify(users), 'CNY', 'wallet'],
      { accounts: 'accounts_owner_once' },
    ],
    ['ledger.lock_accounts', ledger.lockAccounts.text, () => [[1, 2, 3]], { accounts: 'PRIMARY' }],
    ['ledger.add_to_balances', ledger.addToBalances.text, () => ['[[1,0],[2,0]]'], { accounts: 'PRIMARY' }],
    [
      'ledger.find_transfer',
      ledger.findTransfer.text,
      () => ['grab', `${id}:1`],
      { transfers: 'transfers_cause_once' },
    ],
  ];

  for (const [name, text, values, keys] of hot) {
    it(`${name} uses its key and sorts nothing`, async () => {
      const format = books.database.engine.name === 'MySQL' ? 'FORMAT=TRADITIONAL' : '';
      type Row = { table: string | null; type: string | null; key: string | null; Extra: string | null };
      const rows = await books.query<Row>(`EXPLAIN ${format} ${text.replace(/^\/\*.*?\*\/ /, '')}`, values());
      for (const [table, key] of Object.entries(keys)) {
        const row = rows.find((candidate) => candidate.table === table);
        assert.include(key.split('|'), row?.key ?? 'none', JSON.stringify(rows));
        assert.notInclude(['ALL', 'index'], row?.type, JSON.stringify(rows));
      }
      for (const row of rows) assert.notInclude(row.Extra ?? '', 'filesort', JSON.stringify(rows));
    });
  }
});
