-- Writes the settings of a queue.
update queues
set paused_until = ?2, backlog_max = ?3, rate_per_second = ?4, key_limit = ?5
where queue_id = ?1
