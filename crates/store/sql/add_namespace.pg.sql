-- Makes a namespace, unless there is one of this name.
insert into namespaces (name, description, created_at, live_runs_max, workers_max, schedules_max, seal_payloads)
select $2::text, $3::text, clock.now, $4::bigint, $5::bigint, $6::bigint, $7::boolean
from (select coalesce($1::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as now) clock
on conflict (name) do nothing
returning name, description, created_at, change_no, disabled_at, disabled_reason, live_runs_max, workers_max, schedules_max, seal_payloads
