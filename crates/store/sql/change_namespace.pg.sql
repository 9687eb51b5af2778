-- Changes what is to be changed of a namespace. One that is disabled again keeps the time at which it was.
update namespaces set
    change_no = nextval('namespace_changes'),
    description = coalesce($3::text, description),
    disabled_at = case when not $4::boolean then disabled_at when $5::text is null then null else coalesce(disabled_at, clock.now) end,
    disabled_reason = case when $4 then coalesce($5, '') else disabled_reason end,
    live_runs_max = case when $6::boolean then $7::bigint else live_runs_max end,
    workers_max = case when $8::boolean then $9::bigint else workers_max end,
    schedules_max = case when $10::boolean then $11::bigint else schedules_max end,
    seal_payloads = coalesce($12::boolean, seal_payloads)
from (select coalesce($1::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as now) clock
where name = $2::text
returning name, description, created_at, change_no, disabled_at, disabled_reason, live_runs_max, workers_max, schedules_max, seal_payloads
