-- The place of the run that is claimed next on this level of a lane.
select order_at from live where place = 0 and lane_id = ?1 and level = ?2 order by order_at limit 1
