-- Children of runs that have not ended, at most $2.
select given.parent, child.run_id
from unnest($1::uuid[]) as given(parent)
cross join lateral (
    select live.run_id from live where live.parent = given.parent and live.parent is not null order by live.run_id limit $2::bigint
) child
limit $2
