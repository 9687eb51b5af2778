-- Notes that a worker is told of a run again.
update live set told = 1 where run_id = ?1
