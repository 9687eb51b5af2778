-- Deletes what was submitted.
delete from runs where run_id = ?1
