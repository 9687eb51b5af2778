-- One queue by name.
select queue_id, namespace, name, paused_until, backlog_max, rate_per_second, key_limit
from queues
where namespace = ?1 and name = ?2
