-- Lists schedules whose waiting fire can start, because the run before it has ended.
select schedule_no, namespace, schedule_id, spec, note, is_paused, revision, created_at, last_at, next_at, last_fire, last_run,
    buffered_at, fired, left_out
from schedules
where buffered_at is not null and not exists (select 1 from live where live.run_id = schedules.last_run)
order by schedule_no limit ?1
