-- Reads the bucket of a queue's rate, so that nobody else takes from it meanwhile.
select rate_per_second, rate_tokens, rate_at from queues where queue_id = $1::integer for update
