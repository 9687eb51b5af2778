-- Searches runs in any state, newest first. Each is looked up in live and ended, however large the planner believes those to be.
select runs.run_id
from runs
left join lateral (select * from live where live.run_id = runs.run_id limit 1) as live on true
left join lateral (select * from ended where ended.run_id = runs.run_id limit 1) as ended on true
where runs.run_id < $8::uuid and runs.run_id >= $9::uuid
  and ($1::integer[] is null or runs.lane_id = any($1))
  and $4::text is null and $5::text is null
