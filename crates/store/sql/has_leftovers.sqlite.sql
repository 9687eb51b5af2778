-- Whether something is left that has to be deleted before its build.
select exists (select 1 from log_chunks where run_id = ?1) or exists (select 1 from measurements where run_id = ?1)
    or exists (select 1 from builds where run_id = ?1 and outcome is null)
