-- Runs whose deadline has passed.
select run_id, cancels from deadlines where at <= ?1 order by at, run_id limit ?2
