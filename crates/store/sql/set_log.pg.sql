-- Notes the new end of a log that is locked.
update build_progress set log_lines = $3::bigint, log_bytes = $4::bigint, log_full = $5::boolean, log_at = $2::bigint,
    log_epoch = $6::bigint, log_taken = $7::bigint
where run_id = $1::uuid
