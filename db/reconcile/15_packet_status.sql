-- Section 5: SOLD_OUT means that every share is granted; REFUNDED means one refund of the rest; OPEN means neither.
-- Why: the status is what callers are told, and it must be what happened.
-- A finding: a status that the packet's grabs and transfers contradict.
SELECT p.id AS packet_id, p.status, p.share_count, p.claimed_count, p.finished_at, t.amount AS refunded
FROM packets p LEFT JOIN transfers t ON t.reason = 'refund' AND t.reference = p.id
WHERE (p.status = 'SOLD_OUT') <> (p.claimed_count = p.share_count)
   OR (p.status = 'REFUNDED') <> (t.id IS NOT NULL)
   OR (p.status = 'OPEN') <> (p.finished_at IS NULL)
   OR t.amount <> p.total_amount - p.claimed_amount;
