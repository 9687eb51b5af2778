-- The run that was submitted with this idempotency key.
select run_id, submitted_at, due_at, fingerprint from runs where idempotency_key = ?1
