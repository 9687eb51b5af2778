-- The leases of a run that have ended, oldest first. The last one of a run that has ended is in its ended row.
select epoch, worker_id, claimed_at, started_at, ended_at, lease_end, error, epoch & 4294967295 as number from attempts where run_id = ?1
union all
select epoch, worker_id, claimed_at, started_at, ended_at, lease_end, error, epoch & 4294967295 as number from ended
where run_id = ?1 and lease_end is not null
order by number
