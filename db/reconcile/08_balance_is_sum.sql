-- Rule 5: an account's balance equals the sum of its transfers.
-- Why: the balance is a cache of the ledger, kept in the same transaction.
-- A finding: a balance was changed without a transfer, or a transfer without its balance.
SELECT a.id AS account_id, a.owner, a.currency, a.kind, a.balance, COALESCE(m.moved, 0) AS transfers_say
FROM accounts a
LEFT JOIN (
  SELECT account_id, SUM(amount) AS moved
  FROM (
    SELECT credit_account_id AS account_id, amount FROM transfers
    UNION ALL
    SELECT debit_account_id, -amount FROM transfers
  ) sides GROUP BY account_id
) m ON m.account_id = a.id
WHERE a.balance <> COALESCE(m.moved, 0);
