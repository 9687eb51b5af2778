-- What an attempt, or a replay, means for its webhook.
update webhooks set waiting = $2::bigint, failing_since = $3::bigint, last_success_at = $4::bigint, held_until = $5::bigint,
    revision = revision + case when state <> $6::smallint then 1 else 0 end, state = $6::smallint, why = $7::text
where webhook_id = $1::uuid
