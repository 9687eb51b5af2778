-- The newest measurements of a build, newest first.
select at, cpu, memory from measurements where run_id = ?1 order by number desc limit ?2
