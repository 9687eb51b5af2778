-- Registers a worker, unless its instance or identifier is known.
with clock as materialized (select coalesce($1::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as now),
added as (
    insert into workers (worker_id, instance, namespace, name, info, registered_at, key_id)
    select $2::uuid, $3::text, $4::text, $5::text, $6::text, now, $7::text from clock
    on conflict do nothing
    returning worker_id
),
placed as (
    insert into worker_live (worker_id, status, max_concurrent, ttl_ms, seen_at, lease_until)
    select worker_id, 0, $8::integer, $9::bigint, now, now + $9 from added cross join clock
)
select added.worker_id, clock.now from added cross join clock
