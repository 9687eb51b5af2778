-- Locks a schedule, and says whether the last run of its rule lives.
select schedule_no, namespace, schedule_id, spec, note, is_paused, revision, created_at, last_at, next_at, last_fire, last_run,
    buffered_at, fired, left_out,
    exists (select 1 from live where live.run_id = schedules.last_run) as previous_lives,
    coalesce($2::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as now
from schedules where schedule_no = $1::bigint
for update of schedules
