-- Rule 1: each share is at least the packet's minimum share, and at most its maximum share where it has one.
-- Why: the sender was promised these bounds.
-- A finding: a share outside the bounds was stored or changed behind the service's back.
SELECT s.packet_id, s.seq, s.amount, p.min_share, p.max_share
FROM packet_shares s JOIN packets p ON p.id = s.packet_id
WHERE s.amount < p.min_share OR s.amount > p.max_share;
