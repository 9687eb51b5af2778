-- Lists workers, newest first, after the one where the page before ended.
select workers.worker_id, workers.namespace, workers.name, workers.info, workers.registered_at, worker_live.status,
    worker_live.status_reason, worker_live.max_concurrent, worker_live.active, worker_live.completed, worker_live.failed,
    worker_live.seen_at, worker_live.lease_until, worker_live.health, worker_live.unfit, workers.key_id
from workers join worker_live using (worker_id)
where ($1::text is null or workers.namespace = $1)
  and ($2::smallint is null or worker_live.status = $2)
  and ($3::text is null or jsonb_exists(workers.info::jsonb -> 'queues', $3))
  and ($4::uuid is null or (workers.registered_at, workers.worker_id) < (
      select past.registered_at, past.worker_id from workers as past where past.worker_id = $4))
order by workers.registered_at desc, workers.worker_id desc
limit $5::bigint
