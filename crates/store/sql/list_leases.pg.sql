-- The leases of a run that have ended with numbers below $2, newest first, and who had them.
select past.epoch, past.worker_id, past.claimed_at, past.started_at, past.ended_at, past.lease_end, past.error, past.seen_at,
    worker.name
from (
    select * from (
        select epoch, worker_id, claimed_at, started_at, ended_at, lease_end, error, seen_at from attempts where run_id = $1::uuid
        union all
        select epoch, worker_id, claimed_at, started_at, ended_at, lease_end, error, seen_at from ended
        where run_id = $1 and lease_end is not null
    ) as leases
    where epoch & 4294967295 < $2::bigint
    order by epoch & 4294967295 desc
    limit $3::bigint
) as past
left join lateral (select name from workers where workers.worker_id = past.worker_id limit 1) as worker on true
order by past.epoch & 4294967295 desc
