-- Counts runs in a state before their end.
select count(*)
from live
where ($1::integer[] is null or live.lane_id = any($1))
  and live.state = $2::smallint and ($2 not in (1, 2) or live.place = 3)
  and ($3::uuid is null or live.worker_id = $3)
  and ($4::text is null or live.key = $4)
