-- Counts schedules.
select count(*) from schedules where $1::text is null or namespace = $1
