-- Which refused writes of these runs are on record.
select run_id, epoch, verb, position from refused_writes where run_id = any($1::uuid[])
