-- Reads a namespace.
select name, description, created_at, change_no, disabled_at, disabled_reason, live_runs_max, workers_max, schedules_max, seal_payloads
from namespaces where name = ?1
