-- Where a search ends that looks at ?3 runs of the lane ?4.
select run_id from runs where run_id < ?1 and run_id >= ?2 and lane_id = ?4 order by run_id desc limit 1 offset ?3
