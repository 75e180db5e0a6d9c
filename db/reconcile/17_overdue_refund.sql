-- Section 5: an expired packet is refunded soon. The sweeper needs seconds; this file allows an hour.
-- Why: the sender's money waits in escrow meanwhile.
-- A finding: no sweeper is running, or it fails on this packet: look at the service's log.
SELECT id AS packet_id, sender_id, expires_at, total_amount - claimed_amount AS waiting
FROM packets WHERE status = 'OPEN' AND expires_at < UTC_TIMESTAMP(3) - INTERVAL 1 HOUR;
