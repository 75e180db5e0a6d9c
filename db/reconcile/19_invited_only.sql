-- Section 5: from a packet for invited users only invited users have grabs.
-- Why: the sender chose who may win.
-- A finding: a grab by a user who is not in the packet's audience.
SELECT g.packet_id, g.seq, g.user_id
FROM packets p JOIN grabs g ON g.packet_id = p.id
LEFT JOIN packet_audience i ON i.packet_id = g.packet_id AND i.user_id = g.user_id
WHERE p.invited_only = 1 AND i.user_id IS NULL;
