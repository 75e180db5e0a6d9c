-- Rule 1: the shares of a packet sum to its total, and there are exactly share_count of them, numbered 1 to share_count.
-- Why: a share too many or too few pays out money that nobody funded, or strands money that somebody did.
-- A finding: the packet's shares do not add up. Stop payouts from it and compare with its proof (luckyledger proof ID).
SELECT p.id AS packet_id, p.share_count, COUNT(s.seq) AS shares, p.total_amount, COALESCE(SUM(s.amount), 0) AS share_sum
FROM packets p LEFT JOIN packet_shares s ON s.packet_id = p.id
GROUP BY p.id, p.share_count, p.total_amount
HAVING shares <> p.share_count OR share_sum <> p.total_amount OR MIN(s.seq) <> 1 OR MAX(s.seq) <> p.share_count;
