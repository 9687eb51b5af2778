-- Reads when the next schedule is to be looked at, and whether a fire waits for the end of a run.
select (select min(next_at) from schedules where next_at > ?1), exists (select 1 from schedules where buffered_at is not null)
