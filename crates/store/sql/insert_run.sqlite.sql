-- Keeps what was submitted.
insert into runs
    (run_id, lane_id, priority, submitted_at, due_at, key, affinity, idempotency_key, fingerprint, options, retry_of, input, trace)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)
