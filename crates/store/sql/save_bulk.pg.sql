-- Writes how far a bulk operation has come, unless somebody else has since it was read. One that is to stop, and whose runs
-- nobody acts on now, is due at once, also where whoever writes did not know that.
with clock as materialized (select coalesce($1::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as now)
update bulk_operations set
    version = version + 1, due_at = clock.now + case when stopping and length($6::bytea) = 0 then 0 else $4::bigint end, run_cursor = $5::uuid, planned = $6, matched = $7::bigint,
    done = $8::bigint, skipped = $9::bigint, failed = $10::bigint, errors = $11::text, tokens = $12::double precision,
    rate_at = $13::bigint, troubles = $14::integer, waits_for = $15::text, state = $16::smallint,
    ended_at = case when $16 = 0 then null else clock.now end
from clock
where bulk_id = $2::uuid and version = $3::bigint and state = 0
returning bulk_id, namespace, action, filter, reason, created_by, created_at, rate, state, stopping, ended_at, version, due_at,
    run_cursor, planned, matched, done, skipped, failed, errors, tokens, rate_at, troubles, waits_for
