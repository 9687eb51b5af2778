-- Reads a schedule, and says whether the last run of its rule lives. A workflow that continued as another lives as long as that one does.
select schedule_no, namespace, schedule_id, spec, note, is_paused, revision, created_at, last_at, next_at, last_fire, last_run,
    buffered_at, fired, left_out,
    exists (
        with recursive line (run_id) as (
            select schedules.last_run union all select continued.next from continued join line on continued.run_id = line.run_id)
        select 1 from live join line on live.run_id = line.run_id) as previous_lives
from schedules where schedule_no = ?1
