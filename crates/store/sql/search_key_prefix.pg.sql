-- As search_runs, with a key from $4 on and below $5. They are in the order of keys, so no more than $12 are looked at.
select runs.run_id
from (
    select runs.run_id, runs.lane_id
    from runs
    where runs.key is not null and runs.key collate "C" >= $4::text and runs.key collate "C" < $5::text
    order by runs.key collate "C" limit $12::bigint
) as runs
left join lateral (select * from live where live.run_id = runs.run_id limit 1) as live on true
left join lateral (select * from ended where ended.run_id = runs.run_id limit 1) as ended on true
where runs.run_id < $8::uuid and runs.run_id >= $9::uuid
  and ($1::integer[] is null or runs.lane_id = any($1))
