-- Deletes logs of builds, up to a limit.
delete from log_chunks
where (run_id, last) in (select run_id, last from log_chunks where run_id = any($1::uuid[]) order by run_id, last limit $2::bigint)
returning 1
