-- Deletes what a workflow left in continued.
delete from continued where run_id = ?1
