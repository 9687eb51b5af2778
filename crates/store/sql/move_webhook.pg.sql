-- Moves a webhook on to another position, unless somebody was faster or has changed it.
update webhooks set position = $4::bigint, waiting = waiting + $5::bigint, missed = $6::bigint
where webhook_id = $1::uuid and revision = $2::bigint and position = $3::bigint and state = 1
returning 1
