-- Marks workers offline that gave no sign of life for longer than their lease, up to $4; other servers take others.
with clock as materialized (select coalesce($1::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as now),
silent as materialized (
    select worker_live.worker_id from worker_live
    where worker_live.status <> 2 and worker_live.lease_until + $2::bigint < $4::bigint
    order by worker_live.worker_id limit $3::bigint
    for update skip locked
)
update worker_live set status = 2, offline_at = clock.now, status_reason = 'no sign of life'
from clock
where worker_live.worker_id = any(array(select worker_id from silent))
returning worker_live.worker_id
