-- Changes a webhook, unless somebody has changed it since it had this revision.
with clock as (
    select coalesce($1::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as now
)
update webhooks set url = $4::text, filter = $5::text, state = $6::smallint, why = $7::text, secret = $8::bytea,
    secret_before = $9::bytea, before_until = $10::bigint, position = coalesce($11::bigint, position),
    since = case when $12::boolean then clock.now else since end,
    failing_since = case when $11::bigint is null then failing_since end,
    held_until = case when $11::bigint is null then held_until else 0 end,
    waiting = waiting + $13::bigint, revision = revision + 1
from clock
where webhook_id = $2::uuid and revision = $3::bigint
returning webhook_id, namespace, name, url, filter, state, why, secret, secret_before, before_until, position, since, waiting, missed,
    failing_since, last_success_at, held_until, created_at, created_by, revision
