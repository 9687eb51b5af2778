-- Hands a build that nobody was handed yet (?1) to a worker that reports its end (?2), if that is online. Returns the new epoch.
update live
set state = 2, place = 3, epoch = 1 | ?4, worker_id = ?2, claim_no = 0, claimed_at = ?3, started_at = ?3, timeout_at = null,
    lease_until = null
where run_id = ?1 and place = 0 and epoch = 0 and exists (select 1 from builds where builds.run_id = ?1)
    and exists (select 1 from worker_live where worker_live.worker_id = ?2 and worker_live.status = 0)
returning epoch
