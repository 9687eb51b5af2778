-- Hands a build that nobody was handed yet to a worker that reports its end, if that is online. Returns the new epoch.
-- Rows of live come before rows of workers, as everywhere.
with clock as materialized (select coalesce($1::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as now),
free as materialized (
    select live.run_id from live
    where live.run_id = $2::uuid and live.place = 0 and live.epoch = 0 and exists (select 1 from builds where builds.run_id = $2)
    for update
),
fit as materialized (
    select worker_live.worker_id from worker_live
    where worker_live.worker_id = $3::uuid and worker_live.status = 0 and exists (select 1 from free)
    for update
),
counted as (
    update worker_live set active = worker_live.active + 1 from fit where worker_live.worker_id = fit.worker_id
)
update live set
    state = 2, place = 3, epoch = 1 | $4::bigint, worker_id = fit.worker_id, claim_no = 0, claimed_at = clock.now,
    started_at = clock.now, timeout_at = null, lease_until = null
from free, fit, clock
where live.run_id = free.run_id
returning live.epoch
