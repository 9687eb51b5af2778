-- Notes what is left in the bucket of a queue's rate.
update queues set rate_tokens = $2::double precision, rate_at = $3::bigint where queue_id = $1::integer
