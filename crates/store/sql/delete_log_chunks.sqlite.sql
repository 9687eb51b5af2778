-- Deletes the log of a build, up to ?2 chunks.
delete from log_chunks where rowid in (select rowid from log_chunks where run_id = ?1 limit ?2)
