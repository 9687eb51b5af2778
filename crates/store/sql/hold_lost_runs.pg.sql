-- Reads runs that offline workers still hold and locks them; other servers take others.
select live.run_id, live.queue_id, live.lane_id, live.state, live.level, live.priority, live.order_at, live.due_at,
    live.epoch, live.failures, live.losses, live.claimed_at, live.started_at, live.cancel_by, live.worker_id, live.key,
    live.affinity, runs.options, coalesce($1::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as now
from worker_live
join live on live.worker_id = worker_live.worker_id and live.place = 3
join runs using (run_id)
where worker_live.status = 2
order by live.run_id limit $2::bigint
for update of live skip locked
