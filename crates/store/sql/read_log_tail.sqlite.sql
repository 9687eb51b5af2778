-- The end of a log, and how much of it its last writer has added.
select log_lines, log_bytes, log_full, log_epoch, log_taken from build_progress where run_id = ?1
