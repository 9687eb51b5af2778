-- Deletes workers that have been offline for long and hold nothing.
with old as materialized (
    select worker_id from worker_live
    where status = 2 and offline_at < $1::bigint
      and not exists (select 1 from live where live.worker_id = worker_live.worker_id and live.place = 3)
    order by worker_id limit $2::bigint
    for update skip locked
),
gone as (delete from worker_live using old where worker_live.worker_id = old.worker_id)
delete from workers using old where workers.worker_id = old.worker_id
returning 1
