-- Rule 2: every share that is marked as claimed has a grab.
-- Why: a mark without a grab makes a share unreachable: money that nobody can win.
-- A finding: somebody marked a share, or deleted its grab.
SELECT s.packet_id, s.seq, s.amount
FROM packet_shares s LEFT JOIN grabs g ON g.packet_id = s.packet_id AND g.seq = s.seq
WHERE s.claimed = 1 AND g.seq IS NULL;
