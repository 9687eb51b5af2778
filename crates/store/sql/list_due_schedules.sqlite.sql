-- Lists schedules whose time has come.
select schedule_no, namespace, schedule_id, spec, note, is_paused, revision, created_at, last_at, next_at, last_fire, last_run,
    buffered_at, fired, left_out
from schedules where next_at <= ?1 order by next_at limit ?2
