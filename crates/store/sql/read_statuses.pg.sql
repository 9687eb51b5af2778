-- Reads where workers stand.
select worker_id, status from worker_live where worker_id = any($1::uuid[])
