-- The leases of run ?1 that have ended with numbers below ?2, newest first, and who had them.
select past.epoch, past.worker_id, past.claimed_at, past.started_at, past.ended_at, past.lease_end, past.error, past.seen_at,
    workers.name
from (
    select epoch, worker_id, claimed_at, started_at, ended_at, lease_end, error, seen_at from attempts where run_id = ?1
    union all
    select epoch, worker_id, claimed_at, started_at, ended_at, lease_end, error, seen_at from ended
    where run_id = ?1 and lease_end is not null
) as past
left join workers on workers.worker_id = past.worker_id
where past.epoch & 4294967295 < ?2
order by past.epoch & 4294967295 desc
limit ?3
