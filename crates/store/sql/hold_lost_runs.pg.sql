-- Reads runs that offline workers still hold and locks them; other servers take others.
with gone as materialized (select worker_id from worker_live where status = 2 and active > 0)
select live.run_id, live.queue_id, live.lane_id, live.state, live.level, live.priority, live.order_at, live.due_at,
    live.epoch, live.failures, live.losses, live.claimed_at, live.started_at, live.cancel_by, live.worker_id, live.key,
    live.affinity, runs.options, coalesce($1::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as now
from gone
cross join lateral (
    select live.* from live where live.worker_id = gone.worker_id and live.place = 3 order by live.run_id limit $2::bigint
    for update skip locked
) live
join runs on runs.run_id = live.run_id
order by live.run_id limit $2
