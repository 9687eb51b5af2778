-- Hands a run to a worker: the epoch moves on.
update live
set state = ?3, place = 3, told = 0, epoch = ?10, worker_id = ?4, claim_no = ?5, claimed_at = ?6, started_at = ?7, timeout_at = ?8,
    lease_until = ?9
where run_id = ?1 and epoch = ?2 and place = 0
