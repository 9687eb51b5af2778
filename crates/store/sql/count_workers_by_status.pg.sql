-- How many workers of each namespace have which status.
select workers.namespace, worker_live.status, count(*)
from workers join worker_live using (worker_id)
group by workers.namespace, worker_live.status
limit $1::bigint
