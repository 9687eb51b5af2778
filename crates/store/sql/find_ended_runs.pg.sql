-- Finds runs in terminal states, newest first. Failed and cancelled ones have an index of their own.
select ended.run_id
from ended
join runs on runs.run_id = ended.run_id
where ($1::integer[] is null or runs.lane_id = any($1))
  and ended.state = any($2::smallint[])
  and ($3::uuid is null or ended.worker_id = $3)
  and ($4::text is null or runs.key = $4)
  and ($5::uuid is null or ended.run_id < $5)
  and ($7::uuid is null or ended.run_id >= $7)
order by ended.run_id desc limit $6::bigint
