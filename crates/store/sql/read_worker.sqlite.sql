-- One worker.
select workers.worker_id, namespace, name, info, status, status_reason, max_concurrent, active, completed, failed, registered_at,
    seen_at, lease_until, health, unfit, key_id
from workers join worker_live on worker_live.worker_id = workers.worker_id
where workers.worker_id = ?1
