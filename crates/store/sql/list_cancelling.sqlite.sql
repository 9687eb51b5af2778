-- The runs of a worker that somebody wants cancelled.
select run_id, epoch from live where place = 3 and worker_id = ?1 and cancel_by is not null order by run_id
