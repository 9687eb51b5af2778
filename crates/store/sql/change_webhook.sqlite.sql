-- Changes a webhook, unless somebody has changed it since it had this revision.
update webhooks set url = ?4, filter = ?5, state = ?6, why = ?7, secret = ?8, secret_before = ?9, before_until = ?10,
    position = coalesce(?11, position), since = case when ?12 then ?1 else since end,
    failing_since = case when ?11 is null then failing_since end,
    held_until = case when ?11 is null then held_until else 0 end, waiting = waiting + ?13, revision = revision + 1
where webhook_id = ?2 and revision = ?3
returning webhook_id, namespace, name, url, filter, state, why, secret, secret_before, before_until, position, since, waiting, missed,
    failing_since, last_success_at, held_until, created_at, created_by, revision
