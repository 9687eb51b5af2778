-- Keeps how a run ended. Of a lease that was taken from its holder (4 lost, 5 timed out, 6 cancelled) also when that was heard of last.
insert into ended
    (run_id, state, reason, epoch, failures, losses, ended_at, claimed_at, started_at, lease_end, worker_id, error, output, seen_at)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13,
    iif(?10 >= 4, (select seen_at from worker_live where worker_id = ?11), null))
