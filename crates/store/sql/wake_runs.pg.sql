-- Makes sleeping runs claimable.
update live set place = 0, level = given.level, order_at = given.order_at, due_at = given.due_at
from unnest($1::uuid[], $2::smallint[], $3::bigint[], $4::bigint[]) as given(run_id, level, order_at, due_at)
where live.run_id = given.run_id
