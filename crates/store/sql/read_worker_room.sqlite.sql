-- What a claim has to know of a worker.
select status, unfit is not null, max_concurrent, active from worker_live where worker_id = ?1
