-- Deletes what a workflow left in step_attempts.
delete from step_attempts where run_id = ?1
