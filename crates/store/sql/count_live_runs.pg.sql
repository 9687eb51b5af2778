-- Counts runs in states before their end.
select count(*)
from live
where ($1::integer[] is null or live.lane_id = any($1))
  and live.state = any($2::smallint[]) and (not $2 <@ array[1, 2]::smallint[] or live.place = 3)
  and ($3::uuid is null or live.worker_id = $3)
  and ($4::text is null or live.key = $4)
  and ($5::uuid is null or live.run_id >= $5)
  and ($6::uuid is null or live.run_id < $6)
