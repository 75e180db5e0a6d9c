-- Rule 2: a share has at most one grab, and a user at most one grab in a packet.
-- Why: the unique keys say so; this file says so when a key was dropped.
-- A finding: one user, or one share, was paid twice.
SELECT packet_id, 'user' AS twice, user_id AS who, COUNT(*) AS grabs FROM grabs GROUP BY packet_id, user_id HAVING COUNT(*) > 1
UNION ALL
SELECT packet_id, 'share', CAST(seq AS CHAR), COUNT(*) FROM grabs GROUP BY packet_id, seq HAVING COUNT(*) > 1;
