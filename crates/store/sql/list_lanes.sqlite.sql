-- Every lane, with its names and numbers.
select queues.namespace, queues.name, lanes.kind, lanes.lane_id, lanes.queue_id
from lanes join queues on queues.queue_id = lanes.queue_id
order by lanes.lane_id
