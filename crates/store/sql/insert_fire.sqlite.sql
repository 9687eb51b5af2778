-- Writes down what became of a fire.
insert into fires (schedule_no, fire_at, at, what, run_id, missed) values (?1, ?2, ?3, ?4, ?5, ?6)
