-- One webhook.
select webhook_id, namespace, name, url, filter, state, why, secret, secret_before, before_until, position, since, waiting, missed,
    failing_since, last_success_at, held_until, created_at, created_by, revision
from webhooks where webhook_id = $1::uuid
