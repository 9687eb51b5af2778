-- The state of a run, if this worker holds it with this epoch.
select state from live where run_id = ?1 and epoch = ?2 and worker_id = ?3 and place = 3
