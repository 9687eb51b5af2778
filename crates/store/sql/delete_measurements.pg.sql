-- Deletes measurements of builds, up to a limit.
delete from measurements
where (run_id, number) in (
    select run_id, number from measurements where run_id = any($1::uuid[]) order by run_id, number limit $2::bigint)
returning 1
