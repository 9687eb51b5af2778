-- Deletes what a workflow left in relatives.
delete from relatives where run_id = ?1
