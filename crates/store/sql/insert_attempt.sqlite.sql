-- Keeps how a lease ended that its run survived.
insert into attempts (run_id, epoch, worker_id, claimed_at, started_at, ended_at, lease_end, error)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
