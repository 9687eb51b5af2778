-- Counts runs that somebody started by hand. Nothing else of the schedule changes.
update schedules set fired = fired + ?2 where schedule_no = ?1
