-- Puts held runs back among those that wait.
update live set
    state = given.state, place = given.place, level = given.level, order_at = given.order_at, due_at = given.due_at,
    failures = given.failures, losses = given.losses, cancel_by = given.cancel_by,
    worker_id = null, claim_no = null, claimed_at = null, started_at = null, timeout_at = null, lease_until = null
from unnest($1::uuid[], $2::smallint[], $3::smallint[], $4::smallint[], $5::bigint[], $6::bigint[], $7::integer[],
            $8::integer[], $9::bigint[])
    as given(run_id, state, place, level, order_at, due_at, failures, losses, cancel_by)
where live.run_id = given.run_id
