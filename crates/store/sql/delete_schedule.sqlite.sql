-- Deletes a schedule. What became of its fires is forgotten in its time.
delete from schedules where schedule_no = ?1
