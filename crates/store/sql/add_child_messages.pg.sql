-- Tells parents how their children ended.
insert into inbox (run_id, number, kind, at, state, position, name, error, payload)
select given.run_id, given.number, 1, $1::bigint, ended.state, given.position, given.child::text, ended.error, ended.output
from unnest($2::uuid[], $3::bigint[], $4::integer[], $5::uuid[]) as given(run_id, number, position, child)
cross join lateral (
    select ended.state, ended.error, ended.output from ended where ended.run_id = given.child limit 1
) ended
