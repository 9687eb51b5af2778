-- The name of the worker that last finished a run with this affinity key.
select worker_name from affinity where queue_id = ?1 and key = ?2
