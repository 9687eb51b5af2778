-- Lists bulk operations, newest first.
select bulk_id, namespace, action, filter, reason, created_by, created_at, rate, state, stopping, ended_at, version, due_at,
    run_cursor, planned, matched, done, skipped, failed, errors, tokens, rate_at, troubles, waits_for
from bulk_operations
where ($1::text is null or namespace = $1)
  and ($2::smallint is null or state = $2)
  and ($3::uuid is null or bulk_id < $3)
order by bulk_id desc limit $4::bigint
