-- Moves a schedule on after its fires.
update schedules set
    revision = revision + 1, last_at = ?2, next_at = ?3, buffered_at = ?4,
    last_fire = coalesce(?5, last_fire), last_run = coalesce(?6, last_run),
    fired = fired + ?7, left_out = left_out + ?8
where schedule_no = ?1
