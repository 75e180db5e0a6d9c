-- Rule 2: every grab has its share, marked as claimed, and the share's amount is the grab's.
-- Why: a grab pays exactly one pre-split share.
-- A finding: a grab without a share, with another amount, or of a share that is not marked.
SELECT g.packet_id, g.seq, g.user_id, g.amount, s.amount AS share_amount, s.claimed
FROM grabs g LEFT JOIN packet_shares s ON s.packet_id = g.packet_id AND s.seq = g.seq
WHERE s.seq IS NULL OR s.amount <> g.amount OR s.claimed <> 1;
