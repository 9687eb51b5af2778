-- Keeps a measurement.
insert into measurements (run_id, number, at, cpu, memory, memory_mb) values (?1, ?2, ?3, ?4, ?5, ?6)
