-- Changes a worker's status. One that is offline stays offline.
update worker_live set status = ?2, status_reason = ?3, offline_at = ?4 where worker_id = ?1 and status <> 2
