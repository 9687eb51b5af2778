-- Which refused writes of a run are on record.
select epoch, verb, position from refused_writes where run_id = ?1
