-- Notes the new end of a log.
update build_progress set log_lines = ?3, log_bytes = ?4, log_full = ?5, log_at = ?2, log_epoch = ?6, log_taken = ?7 where run_id = ?1
