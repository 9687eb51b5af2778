-- Deletes how a run ended.
delete from ended where run_id = ?1
