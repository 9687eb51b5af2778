-- Changes settings of a queue, making it if it is not there. A new rate starts with a full bucket.
insert into queues as queue (namespace, name, paused_until, backlog_max, rate_per_second, key_limit, rate_tokens, rate_at)
values ($2::text, $3::text, $5::bigint, $7::bigint, $9::double precision, $11::integer,
        greatest(coalesce($9, 1), 1), coalesce($1::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint))
on conflict (namespace, name) do update set
    paused_until = case when $4::boolean then $5 else queue.paused_until end,
    backlog_max = case when $6::boolean then $7 else queue.backlog_max end,
    rate_per_second = case when $8::boolean then $9 else queue.rate_per_second end,
    key_limit = case when $10::boolean then $11 else queue.key_limit end,
    rate_tokens = case when $8 then excluded.rate_tokens else queue.rate_tokens end,
    rate_at = case when $8 then excluded.rate_at else queue.rate_at end
returning queue_id, namespace, name, paused_until, backlog_max, rate_per_second, key_limit
