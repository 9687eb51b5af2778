-- Locks a schedule, and says whether the last run of its rule lives. A workflow that continued as another lives as long as that one does.
select schedule_no, namespace, schedule_id, spec, note, is_paused, revision, created_at, last_at, next_at, last_fire, last_run,
    buffered_at, fired, left_out,
    exists (
        with recursive line (run_id) as (
            select schedules.last_run
            union all
            select after.next from line cross join lateral (
                select continued.next from continued where continued.run_id = line.run_id limit 1) after)
        select 1 from line where (select 1 from live where live.run_id = line.run_id limit 1) is not null) as previous_lives,
    coalesce($2::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as now
from schedules where schedule_no = $1::bigint
for update of schedules
