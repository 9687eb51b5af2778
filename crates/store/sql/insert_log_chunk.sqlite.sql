-- Adds a chunk to a log.
insert into log_chunks (run_id, last, lines, bytes_before, at, body) values (?1, ?2, ?3, ?4, ?5, ?6)
