-- Runs that ended before ?2. None of them was submitted later, which is what ?1, the smallest identifier of that time, says.
select run_id from ended where run_id < ?1 and ended_at < ?2 order by run_id limit ?3
