-- Renews a worker's lease. ?3 says whether it told its health.
update worker_live
set lease_until = ?2 + ttl_ms, seen_at = ?2, health = iif(?3, ?4, health), unfit = iif(?3, ?5, unfit)
where worker_id = ?1 and status <> 2
returning status, lease_until, active
