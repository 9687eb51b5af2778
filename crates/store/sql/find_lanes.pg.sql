-- Finds lanes by their names.
select names.ordinal, lanes.lane_id, queues.queue_id
from unnest($1::text[], $2::text[], $3::text[]) with ordinality as names(namespace, queue, kind, ordinal)
join queues on queues.namespace = names.namespace and queues.name = names.queue
join lanes on lanes.queue_id = queues.queue_id and lanes.kind = names.kind
