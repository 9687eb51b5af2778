-- Changes what is to be changed of a namespace. One that is disabled again keeps the time at which it was.
update namespaces set
    change_no = (select max(change_no) from namespaces) + 1,
    description = coalesce(?3, description),
    disabled_at = case when not ?4 then disabled_at when ?5 is null then null else coalesce(disabled_at, ?1) end,
    disabled_reason = case when ?4 then coalesce(?5, '') else disabled_reason end,
    live_runs_max = case when ?6 then ?7 else live_runs_max end,
    workers_max = case when ?8 then ?9 else workers_max end,
    schedules_max = case when ?10 then ?11 else schedules_max end,
    seal_payloads = coalesce(?12, seal_payloads)
where name = ?2
