-- Makes a namespace, unless there is one of this name.
insert into namespaces (name, description, created_at, change_no, live_runs_max, workers_max, schedules_max, seal_payloads)
select ?1, ?2, ?3, coalesce((select max(change_no) from namespaces), 0) + 1, ?4, ?5, ?6, ?7
where true
on conflict (name) do nothing
