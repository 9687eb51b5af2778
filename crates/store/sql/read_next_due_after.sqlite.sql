-- When the next run of a lane becomes due that is not due yet.
select min(due_at) from live where place = 1 and lane_id = ?1 and due_at > ?2
