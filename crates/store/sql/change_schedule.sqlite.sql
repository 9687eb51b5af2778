-- Changes a schedule that is as it was seen.
update schedules set
    revision = revision + 1, spec = ?3, note = ?4, is_paused = ?5, last_at = ?6, next_at = ?7,
    buffered_at = ?8
where schedule_no = ?1 and revision = ?2
returning schedule_no, namespace, schedule_id, spec, note, is_paused, revision, created_at, last_at, next_at, last_fire, last_run,
    buffered_at, fired, left_out
