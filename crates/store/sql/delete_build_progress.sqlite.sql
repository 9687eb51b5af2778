-- Deletes what grew while a build ran.
delete from build_progress where run_id = ?1
