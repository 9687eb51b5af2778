-- The runs of a lane that are claimed next, in order. Reads live_ready from its head.
select run_id, lane_id, level, order_at, epoch, failures, priority, key, affinity, size, due_at
from live
where place = 0 and lane_id = ?1
order by level, order_at, run_id
limit ?2
