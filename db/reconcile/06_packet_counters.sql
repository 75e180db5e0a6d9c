-- Rule 3: a packet's counters (claimed_count, claimed_amount) equal what its grabs say.
-- Why: the counter tells the next share to claim, and the refund returns total_amount - claimed_amount.
-- A finding: the counters were changed, or grabs were added or removed, behind the service's back.
SELECT p.id AS packet_id, p.claimed_count, COALESCE(g.grabs, 0) AS grabs, p.claimed_amount, COALESCE(g.grabbed, 0) AS grabbed
FROM packets p
LEFT JOIN (SELECT packet_id, COUNT(*) AS grabs, SUM(amount) AS grabbed FROM grabs GROUP BY packet_id) g ON g.packet_id = p.id
WHERE p.claimed_count <> COALESCE(g.grabs, 0) OR p.claimed_amount <> COALESCE(g.grabbed, 0);
