-- Reads live runs and locks them, in the order of their identifiers so that two verbs do not wait for each other in a
-- circle.
select live.run_id, live.queue_id, live.lane_id, live.state, live.level, live.priority, live.order_at, live.due_at,
    live.epoch, live.failures, live.losses, live.claimed_at, live.started_at, live.cancel_by, live.worker_id, live.key,
    live.affinity, runs.options, coalesce($1::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as now
from live join runs using (run_id)
where live.run_id = any($2::uuid[])
order by live.run_id
for update of live
