-- Workers, newest first, after the one named ?4.
select workers.worker_id, namespace, name, info, status, status_reason, max_concurrent, active, completed, failed, registered_at,
    seen_at, lease_until, health, unfit, key_id
from workers join worker_live on worker_live.worker_id = workers.worker_id
where (?1 is null or namespace = ?1)
    and (?2 is null or status = ?2)
    and (?3 is null or exists (select 1 from json_each(info, '$.queues') where value = ?3))
    and (?4 is null or (registered_at, workers.worker_id) < (select registered_at, worker_id from workers where worker_id = ?4))
order by registered_at desc, workers.worker_id desc
limit ?5
