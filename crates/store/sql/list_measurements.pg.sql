-- The newest measurements of a build, newest first.
select at, cpu, memory from measurements where run_id = $1::uuid order by number desc limit $2::bigint
