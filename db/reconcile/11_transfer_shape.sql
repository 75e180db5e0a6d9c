-- Rule 5: every transfer moves a positive amount between two different accounts of its own currency.
-- Why: constraints say so; this file says so when one was dropped.
-- A finding: a transfer that the service cannot have written.
SELECT t.id AS transfer_id, t.reason, t.reference, t.amount, t.currency, d.currency AS debit_currency, c.currency AS credit_currency
FROM transfers t
LEFT JOIN accounts d ON d.id = t.debit_account_id
LEFT JOIN accounts c ON c.id = t.credit_account_id
WHERE t.amount <= 0 OR t.debit_account_id = t.credit_account_id
   OR d.id IS NULL OR c.id IS NULL OR d.currency <> t.currency OR c.currency <> t.currency;
