-- Bulk operations that go on, those that are due first, with the time.
select bulk_id, namespace, action, filter, reason, created_by, created_at, rate, state, stopping, ended_at, version, due_at,
    run_cursor, planned, matched, done, skipped, failed, errors, tokens, rate_at, troubles, waits_for,
    clock.now
from (select coalesce($1::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as now) clock
left join lateral (
    select * from bulk_operations where state = 0 order by due_at, bulk_id limit $2::bigint
) as bulk_operations on true
order by due_at, bulk_id
