-- Makes a schedule, unless there is one with its id.
insert into schedules (namespace, schedule_id, spec, note, is_paused, created_at, last_at, next_at)
values (?2, ?3, ?4, ?5, ?6, ?1, ?7, ?8)
on conflict (namespace, schedule_id) do nothing
returning schedule_no, namespace, schedule_id, spec, note, is_paused, revision, created_at, last_at, next_at, last_fire, last_run,
    buffered_at, fired, left_out
