-- Children of a run that have not ended.
select run_id from live where parent = ?1 order by run_id limit ?2
