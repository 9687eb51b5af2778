-- Lists schedules whose waiting fire can start, because the run before it has ended. A workflow that continued as another lives as long as that one does.
select schedule_no, namespace, schedule_id, spec, note, is_paused, revision, created_at, last_at, next_at, last_fire, last_run,
    buffered_at, fired, left_out
from schedules
where buffered_at is not null and not exists (
    with recursive line (run_id) as (
        select schedules.last_run union all select continued.next from continued join line on continued.run_id = line.run_id)
    select 1 from live join line on live.run_id = line.run_id)
order by schedule_no limit ?1
