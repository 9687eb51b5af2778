-- Ends the log of a build that is about to be deleted: whoever still writes would keep it.
update build_progress set log_full = 1 where run_id = ?1 and not log_full
