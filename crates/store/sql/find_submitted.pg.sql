-- Finds runs by their idempotency keys.
select idempotency_key, run_id, fingerprint, submitted_at, due_at
from runs
where idempotency_key = any($1::text[])
