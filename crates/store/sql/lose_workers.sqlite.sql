-- Marks workers offline whose lease passed before ?1; ?2 is now.
update worker_live set status = 2, offline_at = ?2, status_reason = 'no sign of life'
where worker_id in (
    select worker_id from worker_live where status <> 2 and lease_until < ?1 order by worker_id limit ?3)
returning worker_id
