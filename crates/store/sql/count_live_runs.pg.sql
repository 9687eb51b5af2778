-- Counts runs that have not ended.
select count(*)
from live
join runs on runs.run_id = live.run_id
left join ended on false
where ($1::integer[] is null or runs.lane_id = any($1))
  and ($2::smallint is null or coalesce(live.state, ended.state) = $2)
  and ($3::uuid is null or coalesce(live.worker_id, ended.worker_id) = $3)
  and ($4::text is null or runs.key = $4)
