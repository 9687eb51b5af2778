-- Lists namespaces whose last change has this number or a later one, by name.
select name, description, created_at, change_no, disabled_at, disabled_reason, live_runs_max, workers_max, schedules_max, seal_payloads
from namespaces where change_no >= $1::bigint order by name
