-- What an attempt, or a replay, means for its webhook.
update webhooks set waiting = ?2, failing_since = ?3, last_success_at = ?4, held_until = ?5,
    revision = revision + (state <> ?6), state = ?6, why = ?7
where webhook_id = ?1
