-- Rule 4: every fund, grab and refund transfer has its cause: the packet, or the grab, that its reference names.
-- Why: money that moved without a cause was moved by somebody who is not the service.
-- A finding: a transfer without packet or grab, or with the wrong wallet.
SELECT t.id AS transfer_id, t.reason, t.reference, t.amount
FROM transfers t
LEFT JOIN packets p ON t.reason IN ('fund', 'grab', 'refund')
  AND p.id = CONVERT(SUBSTRING_INDEX(t.reference, ':', 1) USING ascii) COLLATE ascii_bin
LEFT JOIN grabs g ON t.reason = 'grab' AND g.packet_id = p.id AND g.seq = CAST(SUBSTRING_INDEX(t.reference, ':', -1) AS UNSIGNED)
LEFT JOIN accounts d ON d.id = t.debit_account_id
LEFT JOIN accounts c ON c.id = t.credit_account_id
WHERE (t.reason IN ('fund', 'grab', 'refund') AND p.id IS NULL)
   OR (t.reason = 'grab' AND g.seq IS NULL)
   OR (t.reason = 'fund' AND (t.credit_account_id <> p.escrow_account_id OR d.owner <> p.sender_id OR d.kind <> 'wallet'))
   OR (t.reason = 'refund' AND (t.debit_account_id <> p.escrow_account_id OR c.owner <> p.sender_id OR p.status <> 'REFUNDED'));
