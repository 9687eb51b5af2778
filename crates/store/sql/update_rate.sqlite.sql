-- Writes what is left in the bucket of a queue with a rate.
update queues set rate_tokens = ?2, rate_at = ?3 where queue_id = ?1
