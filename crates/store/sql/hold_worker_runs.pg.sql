-- Reads the runs a worker holds and locks them.
select live.run_id, live.queue_id, live.lane_id, live.state, live.level, live.priority, live.order_at, live.due_at,
    live.epoch, live.failures, live.losses, live.claimed_at, live.started_at, live.cancel_by, live.worker_id, live.key,
    live.affinity, runs.options, coalesce($1::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as now
from live join runs using (run_id)
where live.worker_id = $2::uuid and live.place = 3
order by live.run_id
for update of live
