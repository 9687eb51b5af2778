-- Deletes the refused writes of a run.
delete from refused_writes where run_id = ?1
