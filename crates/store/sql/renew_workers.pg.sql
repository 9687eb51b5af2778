-- Renews workers' leases to now + ttl (a new one, where one is given), never adding up, and finds which of their runs somebody wants cancelled.
-- Workers are locked in the order of their identifiers. An offline one is returned as it is.
with clock as materialized (select coalesce($1::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as now),
alive as materialized (
    select worker_live.worker_id, given.measured, given.health, given.unfit, coalesce(given.ttl_ms, worker_live.ttl_ms) as ttl_ms
    from unnest($2::uuid[], $3::boolean[], $4::text[], $5::text[], $6::bigint[]) as given(worker_id, measured, health, unfit, ttl_ms)
    join worker_live using (worker_id)
    where worker_live.status <> 2
    order by worker_live.worker_id
    for update of worker_live
),
renewed as (
    update worker_live set
        seen_at = clock.now,
        lease_until = clock.now + alive.ttl_ms,
        ttl_ms = alive.ttl_ms,
        health = case when alive.measured then alive.health else worker_live.health end,
        unfit = case when alive.measured then alive.unfit else worker_live.unfit end
    from alive, clock
    where worker_live.worker_id = alive.worker_id
    returning worker_live.worker_id, worker_live.status, worker_live.lease_until, worker_live.active
)
select given.worker_id, coalesce(renewed.status, 2::smallint) as status, renewed.lease_until, renewed.active, cancelling.runs, cancelling.epochs
from unnest($2) as given(worker_id)
join worker_live on worker_live.worker_id = given.worker_id
left join renewed on renewed.worker_id = given.worker_id
cross join lateral (
    select array_agg(live.run_id order by live.run_id) as runs, array_agg(live.epoch order by live.run_id) as epochs
    from live
    where live.worker_id = given.worker_id and live.place = 3 and live.cancel_by is not null
) cancelling
