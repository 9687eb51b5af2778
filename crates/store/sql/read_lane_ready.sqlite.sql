-- Whether a lane has a run that can be claimed now, were its queue not paused; ?2 is now.
select exists (select 1 from live where place = 0 and lane_id = ?1)
    or exists (select 1 from live where place = 1 and lane_id = ?1 and due_at <= ?2)
from lanes join queues on queues.queue_id = lanes.queue_id
where lanes.lane_id = ?1 and coalesce(queues.paused_until, 0) <= ?2
