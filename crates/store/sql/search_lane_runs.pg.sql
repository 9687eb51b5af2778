-- As search_runs, of few lanes.
select found.run_id
from unnest($1::integer[]) as wanted(lane_id)
cross join lateral (
    select runs.run_id
    from runs
    left join lateral (select * from live where live.run_id = runs.run_id limit 1) as live on true
    left join lateral (select * from ended where ended.run_id = runs.run_id limit 1) as ended on true
    where runs.lane_id = wanted.lane_id and runs.run_id < $8::uuid and runs.run_id >= $9::uuid
      and $4::text is null and $5::text is null
