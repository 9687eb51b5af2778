-- Takes a run that has ended out of the live ones.
delete from live where run_id = ?1
