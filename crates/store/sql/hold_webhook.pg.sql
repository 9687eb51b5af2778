-- One webhook, which nobody else changes until the transaction ends, and the time.
select webhook_id, namespace, name, url, filter, state, why, secret, secret_before, before_until, position, since, waiting, missed,
    failing_since, last_success_at, held_until, created_at, created_by, revision,
    coalesce($1::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as now
from webhooks where webhook_id = $2::uuid
for update
