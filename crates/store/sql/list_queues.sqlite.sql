-- The queues of a namespace, or all, by name.
select queue_id, namespace, name, paused_until, backlog_max, rate_per_second, key_limit
from queues
where ?1 is null or namespace = ?1
order by namespace, name
