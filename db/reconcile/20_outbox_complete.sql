-- Section 10: every grab is announced once: the ranges of a packet's messages cover 1 to claimed_count without gap or overlap.
-- Why: an app that keeps its own view of who won hears of every grab.
-- A finding: a grab that nobody was told of, or that is announced twice.
SELECT p.id AS packet_id, p.claimed_count, COALESCE(m.announced, 0) AS announced, m.last_seq
FROM packets p
LEFT JOIN (
  SELECT subject_id, SUM(last_seq - first_seq + 1) AS announced, MIN(first_seq) AS first_seq, MAX(last_seq) AS last_seq
  FROM outbox_messages WHERE topic = 'packet.grabbed' GROUP BY subject_id
) m ON m.subject_id = p.id
WHERE p.claimed_count <> COALESCE(m.announced, 0)
   OR (p.claimed_count > 0 AND (m.first_seq <> 1 OR m.last_seq <> p.claimed_count));
