-- Reads one worker.
select workers.worker_id, workers.namespace, workers.name, workers.info, workers.registered_at, worker_live.status,
    worker_live.status_reason, worker_live.max_concurrent, worker_live.active, worker_live.completed, worker_live.failed,
    worker_live.seen_at, worker_live.lease_until, worker_live.health, worker_live.unfit, workers.key_id
from workers join worker_live using (worker_id)
where worker_id = $1::uuid
