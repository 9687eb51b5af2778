-- Marks a worker offline, unless it is already.
update worker_live set
    status = 2,
    offline_at = coalesce($1::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint),
    status_reason = $3::text
where worker_id = $2::uuid and status <> 2
returning worker_id
