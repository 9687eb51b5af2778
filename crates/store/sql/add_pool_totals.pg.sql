-- Adds to the sums of pools. The caller names them in order, so that two do not wait for each other in a circle.
insert into pool_totals (pool_no, what, much)
select given.pool_no, given.what, given.much
from unnest($1::bigint[], $2::text[], $3::bigint[]) as given(pool_no, what, much)
on conflict (pool_no, what) do update set much = pool_totals.much + excluded.much
