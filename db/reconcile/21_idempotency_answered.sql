-- Rule 10: every idempotency key has its final answer.
-- Why: a key without an answer would be wedged for ever.
-- A finding: a key that was written outside the service's transaction.
SELECT client_id, idempotency_key, status, created_at FROM idempotency_keys WHERE status IS NULL OR answer = '';
