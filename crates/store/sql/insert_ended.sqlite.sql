-- Keeps how a run ended.
insert into ended
    (run_id, state, reason, epoch, failures, losses, ended_at, claimed_at, started_at, lease_end, worker_id, error, output)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)
