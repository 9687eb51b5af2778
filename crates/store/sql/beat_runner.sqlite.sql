-- Notes a sign of life of a runner that is not gone.
update runners set seen_at = ?1
where runner_id = ?2 and state <> 6
returning runner_id, state, epoch, claim_no, run_id, deadline, registered_at, cause
