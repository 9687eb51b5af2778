-- Finds schedules whose time has come, and those whose waiting fire can start because the run before it has ended. There is always a row,
-- with the time and the time of the next one. A workflow that continued as another lives as long as that one does.
with clock as materialized (select coalesce($1::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as now),
due as (
    select 0 as turn, schedules.* from clock cross join lateral (
        select * from schedules where next_at <= clock.now order by next_at limit $2::bigint
    ) schedules
    union all
    select 1 as turn, schedules.* from (
        select * from schedules
        where buffered_at is not null and not exists (
            with recursive line (run_id) as (
                select schedules.last_run
                union all
                select after.next from line cross join lateral (
                    select continued.next from continued where continued.run_id = line.run_id limit 1) after)
            select 1 from line where (select 1 from live where live.run_id = line.run_id limit 1) is not null)
        order by schedule_no limit $2
    ) schedules
)
select clock.now, (select min(later.next_at) from schedules later where later.next_at > clock.now) as later_at,
    exists (select 1 from schedules where schedules.buffered_at is not null) as is_waiting,
    due.schedule_no, namespace, schedule_id, spec, note, is_paused, revision, created_at, last_at, next_at, last_fire, last_run,
    buffered_at, fired, left_out
from clock left join due on true
order by due.turn, due.next_at
