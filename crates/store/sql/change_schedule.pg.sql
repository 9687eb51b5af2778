-- Changes a schedule that is as it was seen.
update schedules set
    revision = revision + 1, spec = $3::text, note = $4::text, is_paused = $5::boolean, last_at = $6::bigint, next_at = $7::bigint,
    buffered_at = $8::bigint
where schedule_no = $1::bigint and revision = $2::bigint
returning schedule_no, namespace, schedule_id, spec, note, is_paused, revision, created_at, last_at, next_at, last_fire, last_run,
    buffered_at, fired, left_out
