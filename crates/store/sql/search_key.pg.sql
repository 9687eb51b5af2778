-- As search_runs, with the key $4.
select runs.run_id
from runs
left join lateral (select * from live where live.run_id = runs.run_id limit 1) as live on true
left join lateral (select * from ended where ended.run_id = runs.run_id limit 1) as ended on true
where runs.key collate "C" = $4::text and $5::text is not null and runs.run_id < $8::uuid and runs.run_id >= $9::uuid
  and ($1::integer[] is null or runs.lane_id = any($1))
