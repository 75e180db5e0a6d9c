-- Three database roles. Run by an administrator in the service's database, after each migration; running it again is harmless:
--   mysql --user=root luckyledger < db/roles.sql
-- Then give a role to a user, on MySQL:    GRANT luckyledger_service TO 'app'@'%'; SET DEFAULT ROLE luckyledger_service TO 'app'@'%';
--                          on MariaDB:     GRANT luckyledger_service TO 'app'@'%'; SET DEFAULT ROLE luckyledger_service FOR 'app'@'%';

CREATE ROLE IF NOT EXISTS luckyledger_migrator;
CREATE ROLE IF NOT EXISTS luckyledger_service;
CREATE ROLE IF NOT EXISTS luckyledger_auditor;

-- The migrator changes the schema (and keeps the list of what it has applied).
GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER, DROP, INDEX, REFERENCES, CREATE VIEW, SHOW VIEW ON * TO luckyledger_migrator;

-- The service reads and appends everywhere …
GRANT SELECT, INSERT ON accounts TO luckyledger_service;
GRANT SELECT, INSERT ON transfers TO luckyledger_service;
GRANT SELECT, INSERT ON packets TO luckyledger_service;
GRANT SELECT, INSERT ON packet_shares TO luckyledger_service;
GRANT SELECT, INSERT ON grabs TO luckyledger_service;
GRANT SELECT, INSERT ON packet_audience TO luckyledger_service;
GRANT SELECT, INSERT ON api_keys TO luckyledger_service;
GRANT SELECT, INSERT ON idempotency_keys TO luckyledger_service;
GRANT SELECT, INSERT ON outbox_messages TO luckyledger_service;
GRANT SELECT ON schema_migrations TO luckyledger_service;
-- … and changes only these columns. Nothing may change or delete a transfer or a grab.
-- (accounts as a whole: MariaDB wants more than one column's right for INSERT … ON DUPLICATE KEY UPDATE)
GRANT UPDATE ON accounts TO luckyledger_service;
GRANT UPDATE (claimed_count, claimed_amount, status, closed_by_sender, finished_at) ON packets TO luckyledger_service;
GRANT UPDATE (claimed) ON packet_shares TO luckyledger_service;
GRANT UPDATE (revoked_at) ON api_keys TO luckyledger_service;
GRANT UPDATE (status, answer) ON idempotency_keys TO luckyledger_service;
-- Stored answers are purged when they are old.
GRANT DELETE ON idempotency_keys TO luckyledger_service;

-- The auditor reads the books. Not the hashes of keys, and not the seeds of packets: an unfinished packet's seed would tell its shares.
GRANT SELECT ON accounts TO luckyledger_auditor;
GRANT SELECT ON transfers TO luckyledger_auditor;
GRANT SELECT (id, sender_id, currency, total_amount, share_count, claimed_count, claimed_amount, split, min_share, max_share, commitment, greeting, invited_only, escrow_account_id, status, closed_by_sender, created_by, created_at, opens_at, expires_at, finished_at) ON packets TO luckyledger_auditor;
GRANT SELECT ON packet_shares TO luckyledger_auditor;
GRANT SELECT ON grabs TO luckyledger_auditor;
GRANT SELECT ON packet_audience TO luckyledger_auditor;
GRANT SELECT (id, name, scopes, created_at, revoked_at) ON api_keys TO luckyledger_auditor;
GRANT SELECT ON idempotency_keys TO luckyledger_auditor;
GRANT SELECT ON outbox_messages TO luckyledger_auditor;
GRANT SELECT ON schema_migrations TO luckyledger_auditor;
