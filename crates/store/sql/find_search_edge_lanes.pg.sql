-- Where a search ends that looks at $3 runs of each of these lanes.
select found.run_id
from unnest($4::integer[]) as wanted(lane_id)
cross join lateral (
    select runs.run_id from runs
    where runs.lane_id = wanted.lane_id and runs.run_id < $1::uuid and runs.run_id >= $2::uuid
    order by runs.run_id desc offset $3::bigint limit 1
) as found
order by found.run_id desc limit 1
