-- Makes runs of a lane claimable that have become due, at most ?3 of them, soonest first.
update live set place = 0, order_at = due_at
where run_id in (select run_id from live where place = 1 and lane_id = ?1 and due_at <= ?2 order by due_at limit ?3)
