-- The newest measurements of a build, newest first.
select at, cpu, memory, memory_mb from measurements where run_id = ?1 order by number desc limit ?2
