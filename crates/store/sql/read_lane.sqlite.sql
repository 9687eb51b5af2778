-- The numbers of a lane.
select lanes.lane_id, lanes.queue_id
from queues join lanes on lanes.queue_id = queues.queue_id
where queues.namespace = ?1 and queues.name = ?2 and lanes.kind = ?3
