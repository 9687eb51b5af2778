-- The bulk operation that was made with this idempotency key.
select bulk_id, namespace, action, filter, reason, created_by, created_at, rate, state, stopping, ended_at, version, due_at,
    run_cursor, planned, matched, done, skipped, failed, errors, tokens, rate_at, troubles, waits_for, fingerprint
from bulk_operations where idempotency_key = ?1
