-- Finds the worker that registered as this instance.
select worker_id from workers where instance = $1
