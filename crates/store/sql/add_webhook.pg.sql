-- Makes a webhook, if there is none of its name and there may be one more.
with clock as (
    select coalesce($1::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as now
)
insert into webhooks (webhook_id, namespace, name, url, filter, state, why, secret, secret_before, before_until, position, since, waiting, missed,
    failing_since, last_success_at, held_until, created_at, created_by, revision)
select $2::uuid, $3::text, $4::text, $5::text, $6::text, 1, '', $7::bytea, null, 0, $8::bigint, clock.now, 0, 0,
    null, null, 0, clock.now, $9::text, 1
from clock
where (select count(*) from webhooks where namespace is not distinct from $3) < $10::bigint
    and (select count(*) from webhooks) < $11::bigint
on conflict do nothing
returning webhook_id, namespace, name, url, filter, state, why, secret, secret_before, before_until, position, since, waiting, missed,
    failing_since, last_success_at, held_until, created_at, created_by, revision
