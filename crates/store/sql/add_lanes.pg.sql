-- Makes lanes that are not there yet, in a fixed order so that two servers do not wait for each other in a circle.
insert into lanes (queue_id, kind)
select distinct queues.queue_id, names.kind
from unnest($1::text[], $2::text[], $3::text[]) as names(namespace, queue, kind)
join queues on queues.namespace = names.namespace and queues.name = names.queue
order by queues.queue_id, names.kind
on conflict (queue_id, kind) do nothing
