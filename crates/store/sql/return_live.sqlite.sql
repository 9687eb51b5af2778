-- Puts a run back in its line: nobody holds it any more.
update live
set state = ?3, place = ?4, level = ?5, order_at = ?6, due_at = ?7, failures = ?8, losses = ?9, cancel_by = null, worker_id = null,
    claim_no = null, claimed_at = null, started_at = null, timeout_at = null, lease_until = null
where run_id = ?1 and epoch = ?2 and place = 3
