-- Lists runs in states before their end, newest first. Held ones have an index of their own; ended is only there for its
-- columns.
select runs.run_id, runs.lane_id, coalesce(live.state, ended.state) as state, coalesce(live.epoch, ended.epoch) as epoch,
    runs.priority, coalesce(live.failures, ended.failures) as failures, coalesce(live.losses, ended.losses) as losses,
    runs.submitted_at, coalesce(live.due_at, runs.due_at) as due_at, runs.key, runs.affinity, runs.retry_of, runs.options, runs.trace,
    coalesce(live.worker_id, ended.worker_id) as worker_id, coalesce(live.claimed_at, ended.claimed_at) as claimed_at,
    coalesce(live.started_at, ended.started_at) as started_at, live.timeout_at, live.lease_until, live.cancel_by,
    live.place, ended.ended_at, ended.reason,
    case when live.run_id is null then ended.error else (
        select attempts.error from attempts where attempts.run_id = runs.run_id order by attempts.epoch & 4294967295 desc limit 1
    ) end as error
from live
join runs on runs.run_id = live.run_id
left join ended on false
where ($1::integer[] is null or live.lane_id = any($1))
  and live.state = any($2::smallint[]) and (not $2 <@ array[1, 2]::smallint[] or live.place = 3)
  and ($3::uuid is null or live.worker_id = $3)
  and ($4::text is null or live.key = $4)
  and ($5::uuid is null or live.run_id < $5)
  and ($7::uuid is null or live.run_id >= $7)
order by live.run_id desc limit $6::bigint
