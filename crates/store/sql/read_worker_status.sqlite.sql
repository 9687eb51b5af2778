-- Where a worker stands.
select status from worker_live where worker_id = ?1
