-- Reads a schedule.
select schedule_no, namespace, schedule_id, spec, note, is_paused, revision, created_at, last_at, next_at, last_fire, last_run,
    buffered_at, fired, left_out
from schedules where namespace = ?1 and schedule_id = ?2
