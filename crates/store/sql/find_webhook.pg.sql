-- The webhook of this name.
select webhook_id, namespace, name, url, filter, state, why, secret, secret_before, before_until, position, since, waiting, missed,
    failing_since, last_success_at, held_until, created_at, created_by, revision
from webhooks where coalesce(namespace, '') = coalesce($1::text, '') and name = $2::text
