-- Where a search ends that looks at ?3 runs.
select run_id from runs where run_id < ?1 and run_id >= ?2 order by run_id desc limit 1 offset ?3
