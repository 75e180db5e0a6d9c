-- Rule 5: wallets and escrows are never negative.
-- Why: nobody can give what they do not have; only the outside world (a system account) owes.
-- A finding: an overdraft. The CHECK on balances must have been dropped.
SELECT id AS account_id, owner, currency, kind, balance FROM accounts WHERE kind <> 'system' AND balance < 0;
