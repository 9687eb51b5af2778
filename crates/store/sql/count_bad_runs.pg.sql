-- Counts failed or cancelled runs, by the index that holds only those.
select count(*)
from ended
join runs on runs.run_id = ended.run_id
left join live on false
where ended.state <> 4
  and ($1::integer[] is null or runs.lane_id = any($1))
  and ($2::smallint is null or coalesce(live.state, ended.state) = $2)
  and ($3::uuid is null or coalesce(live.worker_id, ended.worker_id) = $3)
  and ($4::text is null or runs.key = $4)
