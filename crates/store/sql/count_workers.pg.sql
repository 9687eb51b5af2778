-- Counts workers.
select count(*)
from workers join worker_live using (worker_id)
where ($1::text is null or workers.namespace = $1)
  and ($2::smallint is null or worker_live.status = $2)
  and ($3::text is null or jsonb_exists(workers.info::jsonb -> 'queues', $3))
