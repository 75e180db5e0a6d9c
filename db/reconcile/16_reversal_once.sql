-- Section 6: a reversal is the exact opposite of one transfer that may be reversed, later, and not itself a reversal.
-- Why: corrections must be as exact as what they correct.
-- A finding: a reversal with another amount, other accounts, or of something that cannot be reversed.
SELECT r.id AS transfer_id, r.reference AS reverses, o.reason, o.amount, r.amount AS reversed
FROM transfers r LEFT JOIN transfers o ON o.id = CAST(r.reference AS UNSIGNED)
WHERE r.reason = 'reversal'
  AND (o.id IS NULL OR o.reason NOT IN ('deposit', 'withdrawal', 'transfer') OR o.amount <> r.amount
    OR o.debit_account_id <> r.credit_account_id OR o.credit_account_id <> r.debit_account_id OR o.created_at > r.created_at);
