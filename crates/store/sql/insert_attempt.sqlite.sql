-- Keeps how a lease ended that its run survived. Of one that was taken from its holder (4 lost, 5 timed out, 6 cancelled) also when that
-- was heard of last.
insert into attempts (run_id, epoch, worker_id, claimed_at, started_at, ended_at, lease_end, error, seen_at)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, iif(?7 >= 4, (select seen_at from worker_live where worker_id = ?3), null))
