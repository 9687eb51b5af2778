-- Ends logs of builds that are about to be deleted: whoever still writes comes before this or not at all.
update build_progress set log_full = true where run_id = any($1::uuid[]) and not log_full
