-- Writes a block of statistics.
insert into statistics (server, seq, at, step_ms, body) values (?1, ?2, ?3, ?4, ?5)
