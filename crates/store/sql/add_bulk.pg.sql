-- Makes a bulk operation. Its identifier is built as those of runs are.
insert into bulk_operations (bulk_id, namespace, action, filter, reason, created_by, created_at, idempotency_key, fingerprint,
    rate, due_at, tokens, rate_at)
select (
        lpad(to_hex(numbered.now), 12, '0') || '7' || lpad(to_hex(numbered.sequence >> 14), 3, '0')
        || to_hex(32768 + (numbered.sequence & 16383)) || lpad(to_hex($2::bigint), 12, '0')
    )::uuid,
    $3::text, $4::smallint, $5::text, $6::text, $7::text, numbered.now, $8::text, $9::bytea, $10::double precision,
    numbered.now, $11::double precision, numbered.now
from (
    select clock.now, nextval('run_sequence') & 67108863 as sequence
    from (select coalesce($1::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as now) clock
) numbered
returning bulk_id, namespace, action, filter, reason, created_by, created_at, rate, state, stopping, ended_at, version, due_at,
    run_cursor, planned, matched, done, skipped, failed, errors, tokens, rate_at, troubles, waits_for
