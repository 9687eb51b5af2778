-- Keeps a measurement.
insert into measurements (run_id, number, at, cpu, memory) values (?1, ?2, ?3, ?4, ?5)
