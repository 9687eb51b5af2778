-- Where a search ends that looks at ?3 runs that failed or were cancelled.
select run_id from ended indexed by ended_badly where run_id < ?1 and run_id >= ?2 and state <> 4 order by run_id desc limit 1 offset ?3
