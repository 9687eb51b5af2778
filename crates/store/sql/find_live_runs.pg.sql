-- Finds runs in states before their end, newest first. Held ones have an index of their own.
select live.run_id
from live
where ($1::integer[] is null or live.lane_id = any($1))
  and live.state = any($2::smallint[]) and (not $2 <@ array[1, 2]::smallint[] or live.place = 3)
  and ($3::uuid is null or live.worker_id = $3)
  and ($4::text is null or live.key = $4)
  and ($5::uuid is null or live.run_id < $5)
  and ($7::uuid is null or live.run_id >= $7)
order by live.run_id desc limit $6::bigint
