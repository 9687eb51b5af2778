-- Makes a bulk operation.
insert into bulk_operations (bulk_id, namespace, action, filter, reason, created_by, created_at, idempotency_key, fingerprint,
    rate, due_at, tokens, rate_at)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?7, ?11, ?7)
