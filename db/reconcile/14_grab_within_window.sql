-- Section 5: no grab before its packet opened, at or after its expiry, or after its end.
-- Why: at expiry the rest goes back to the sender; a later grab would pay the same fen twice.
-- A finding: a grab outside the packet's window by the database's own clock.
SELECT g.packet_id, g.seq, g.user_id, g.grabbed_at, p.opens_at, p.expires_at, p.finished_at
FROM grabs g JOIN packets p ON p.id = g.packet_id
WHERE g.grabbed_at < p.opens_at OR g.grabbed_at >= p.expires_at OR g.grabbed_at > p.finished_at;
