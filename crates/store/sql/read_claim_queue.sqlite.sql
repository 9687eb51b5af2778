-- What a claim has to know of its queue.
select paused_until, rate_per_second, rate_tokens, rate_at, key_limit from queues where queue_id = ?1
