-- Notes a builder's new incarnation, if its name is free or was registered with the same key. A number is left out, so that the
-- token before the new one is nobody's.
insert into builders as builder (namespace, name_id, worker_id, key_id, token, first_token, token_used, token_until, registered_at)
select $2::text, $3::text, $4::uuid, $5::text, 1, 1, false, clock.now + $6::bigint, clock.now
from (select coalesce($1::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as now) clock
on conflict (namespace, name_id) do update set
    replaced_id = nullif(builder.worker_id, excluded.worker_id),
    worker_id = excluded.worker_id,
    token = builder.token + 2,
    first_token = builder.token + 2,
    token_used = false,
    token_until = excluded.token_until,
    registered_at = excluded.registered_at,
    revoked_at = null
where builder.key_id is not distinct from excluded.key_id
returning token, replaced_id
