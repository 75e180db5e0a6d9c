-- Rule 5: all balances of a currency sum to zero.
-- Why: every transfer gives to one account what it takes from another, so money is only ever moved.
-- A finding: some balance of this currency is wrong; 08 names it.
SELECT currency, SUM(balance) AS should_be_zero FROM accounts GROUP BY currency HAVING SUM(balance) <> 0;
