-- Reads held runs with a deadline that has passed and locks them; other servers take others.
with clock as materialized (select coalesce($1::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as now)
select live.run_id, live.queue_id, live.lane_id, live.state, live.level, live.priority, live.order_at, live.due_at,
    live.epoch, live.failures, live.losses, live.claimed_at, live.started_at, live.cancel_by, live.worker_id, live.key,
    live.affinity, runs.options, live.timeout_at, live.lease_until, clock.now
from clock, live join runs using (run_id)
where live.place = 3 and least(live.timeout_at, live.lease_until, live.cancel_by) <= (select now from clock)
order by least(live.timeout_at, live.lease_until, live.cancel_by), live.run_id limit $2::bigint
for update of live skip locked
