-- Writes what has changed of a run that stays with its worker.
update live set state = ?3, started_at = ?4, cancel_by = ?5 where run_id = ?1 and epoch = ?2 and place = 3
