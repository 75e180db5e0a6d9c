-- Rule 4: funded = granted + refunded + still in escrow, for each packet; after its end the escrow is zero.
-- Why: every fen that a sender put in is with a winner, back with the sender, or still in the packet.
-- A finding: money of this packet was lost or made. The ledger's rows of the escrow account tell where.
SELECT p.id AS packet_id, p.status, p.total_amount, m.funded, m.granted, m.refunded, a.balance AS in_escrow
FROM packets p
JOIN accounts a ON a.id = p.escrow_account_id
LEFT JOIN (
  SELECT account_id,
    SUM(CASE WHEN reason = 'fund' AND side = 'in' THEN amount ELSE 0 END) AS funded,
    SUM(CASE WHEN reason = 'grab' AND side = 'out' THEN amount ELSE 0 END) AS granted,
    SUM(CASE WHEN reason = 'refund' AND side = 'out' THEN amount ELSE 0 END) AS refunded
  FROM (
    SELECT credit_account_id AS account_id, 'in' AS side, reason, amount FROM transfers WHERE reason = 'fund'
    UNION ALL
    SELECT debit_account_id, 'out', reason, amount FROM transfers WHERE reason IN ('grab', 'refund')
  ) moves GROUP BY account_id
) m ON m.account_id = p.escrow_account_id
WHERE COALESCE(m.funded, 0) <> p.total_amount
   OR COALESCE(m.granted, 0) + COALESCE(m.refunded, 0) + a.balance <> p.total_amount
   OR (p.status <> 'OPEN' AND a.balance <> 0)
   OR (p.status <> 'REFUNDED' AND COALESCE(m.refunded, 0) <> 0);
