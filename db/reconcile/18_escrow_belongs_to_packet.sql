-- Rule 4: every escrow account belongs to exactly one packet, of its currency, and carries its id.
-- Why: money in an escrow without a packet can never be granted or refunded.
-- A finding: an orphaned escrow, or a packet that draws on another packet's money.
SELECT a.id AS account_id, a.owner, a.balance, COUNT(p.id) AS packets
FROM accounts a LEFT JOIN packets p ON p.escrow_account_id = a.id AND p.id = a.owner AND p.currency = a.currency
WHERE a.kind = 'escrow' GROUP BY a.id, a.owner, a.balance HAVING COUNT(p.id) <> 1
UNION ALL
SELECT a.id, a.owner, a.balance, 0 FROM packets p JOIN accounts a ON a.id = p.escrow_account_id WHERE a.kind <> 'escrow' OR a.owner <> p.id;
