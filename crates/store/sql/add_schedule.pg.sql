-- Makes a schedule, unless there is one with its id.
insert into schedules (namespace, schedule_id, spec, note, is_paused, created_at, last_at, next_at)
select $2::text, $3::text, $4::text, $5::text, $6::boolean, clock.now, $7::bigint, $8::bigint
from (select coalesce($1::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as now) clock
on conflict (namespace, schedule_id) do nothing
returning schedule_no, namespace, schedule_id, spec, note, is_paused, revision, created_at, last_at, next_at, last_fire, last_run,
    buffered_at, fired, left_out
