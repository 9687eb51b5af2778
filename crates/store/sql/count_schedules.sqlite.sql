-- Counts schedules.
select count(*) from schedules where ?1 is null or namespace = ?1
