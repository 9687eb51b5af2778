-- Bulk operations that go on, those that are due first.
select bulk_id, namespace, action, filter, reason, created_by, created_at, rate, state, stopping, ended_at, version, due_at,
    run_cursor, planned, matched, done, skipped, failed, errors, tokens, rate_at, troubles, waits_for
from bulk_operations indexed by bulk_live
where state = 0
order by due_at, bulk_id limit ?1
