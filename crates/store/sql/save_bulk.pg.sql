-- Writes how far a bulk operation has come, unless somebody else has since it was read.
with clock as materialized (select coalesce($1::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as now)
update bulk_operations set
    version = version + 1, due_at = clock.now + $4::bigint, run_cursor = $5::uuid, planned = $6::bytea, matched = $7::bigint,
    done = $8::bigint, skipped = $9::bigint, failed = $10::bigint, errors = $11::text, tokens = $12::double precision,
    rate_at = $13::bigint, troubles = $14::integer, waits_for = $15::text, state = $16::smallint,
    ended_at = case when $16 = 0 then null else clock.now end
from clock
where bulk_id = $2::uuid and version = $3::bigint and state = 0
returning bulk_id, namespace, action, filter, reason, created_by, created_at, rate, state, stopping, ended_at, version, due_at,
    run_cursor, planned, matched, done, skipped, failed, errors, tokens, rate_at, troubles, waits_for
