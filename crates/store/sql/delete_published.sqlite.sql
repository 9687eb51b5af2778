-- Deletes what a workflow left in published.
delete from published where run_id = ?1
