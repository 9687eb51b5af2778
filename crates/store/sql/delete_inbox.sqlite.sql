-- Deletes what a workflow left in inbox.
delete from inbox where run_id = ?1
