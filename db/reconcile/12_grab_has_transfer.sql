-- Rules 2 and 4: every grab is paid by exactly its transfer: this amount, from the packet's escrow, to this user's wallet, at this time.
-- Why: a grab that is not paid is a broken promise.
-- A finding: a grab without its transfer, or paid to somebody else; for example a grab that was moved to another user.
SELECT g.packet_id, g.seq, g.user_id, g.amount, t.id AS transfer_id, t.amount AS paid, w.owner AS paid_to
FROM grabs g
JOIN packets p ON p.id = g.packet_id
LEFT JOIN transfers t ON t.reason = 'grab' AND t.reference = CONCAT(g.packet_id, ':', g.seq)
LEFT JOIN accounts w ON w.id = t.credit_account_id
WHERE t.id IS NULL OR t.amount <> g.amount OR t.debit_account_id <> p.escrow_account_id
   OR w.kind <> 'wallet' OR w.owner <> g.user_id OR t.created_at <> g.grabbed_at;
