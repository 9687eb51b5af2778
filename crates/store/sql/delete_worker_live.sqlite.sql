-- Deletes workers that have been offline since before ?1 and hold nothing.
delete from worker_live
where worker_id in (
    select worker_id from worker_live where status = 2 and active = 0 and offline_at < ?1 order by worker_id limit ?2)
returning worker_id
