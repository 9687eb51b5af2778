-- The runs that a worker holds.
select run_id, epoch from live where place = 3 and worker_id = ?1 order by run_id
