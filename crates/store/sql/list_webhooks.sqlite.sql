-- Webhooks of a namespace, or all, newest first.
select webhook_id, namespace, name, url, filter, state, why, secret, secret_before, before_until, position, since, waiting, missed,
    failing_since, last_success_at, held_until, created_at, created_by, revision
from webhooks
where (?1 is null or namespace = ?1) and (?2 is null or webhook_id < ?2)
order by webhook_id desc limit ?3
