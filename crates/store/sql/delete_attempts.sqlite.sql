-- Deletes the past leases of a run.
delete from attempts where run_id = ?1
