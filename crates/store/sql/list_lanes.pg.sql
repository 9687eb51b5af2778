-- Lists every lane with its names.
select queues.namespace, queues.name, lanes.kind, lanes.lane_id, queues.queue_id
from lanes join queues using (queue_id)
order by lanes.lane_id
