-- Deletes what a workflow left in steps.
delete from steps where run_id = ?1
