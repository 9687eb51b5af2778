-- The settings that were changed while the servers run.
select name, value, changed_at from settings order by name
