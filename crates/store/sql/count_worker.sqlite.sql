-- Moves a worker's counters.
update worker_live set active = active + ?2, completed = completed + ?3, failed = failed + ?4 where worker_id = ?1
