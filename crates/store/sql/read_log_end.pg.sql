-- The end of a log.
select log_lines, log_bytes, log_full from build_progress where run_id = $1::uuid
