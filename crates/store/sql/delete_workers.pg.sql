-- Deletes workers that have been offline for long and hold nothing, and the builders whose last incarnations they were.
with old as materialized (
    select worker_id from worker_live
    where status = 2 and offline_at < $1::bigint
      and not exists (select 1 from live where live.worker_id = worker_live.worker_id and live.place = 3)
    order by worker_id limit $2::bigint
    for update skip locked
),
gone as (delete from worker_live where worker_id = any(array(select worker_id from old))),
forgotten as (delete from builders where worker_id = any(array(select worker_id from old)))
delete from workers where worker_id = any(array(select worker_id from old))
returning 1
