-- Finds runs in any state, newest first.
select runs.run_id
from runs
left join live on live.run_id = runs.run_id
left join ended on ended.run_id = runs.run_id
where (live.run_id is not null or ended.run_id is not null)
  and ($1::integer[] is null or runs.lane_id = any($1))
  and ($2::uuid is null or coalesce(live.worker_id, ended.worker_id) = $2)
  and ($3::text is null or runs.key = $3)
  and ($4::uuid is null or runs.run_id < $4)
  and ($6::uuid is null or runs.run_id >= $6)
order by runs.run_id desc limit $5::bigint
