-- Takes deliveries that are due, so many of each webhook, until a deadline.
with clock as (
    select coalesce($1::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as now
), picked as (
    select due.webhook_id, due.delivery_id
    from unnest($2::uuid[], $3::bigint[]) as given(webhook_id, room)
    join webhooks on webhooks.webhook_id = given.webhook_id
    cross join clock
    cross join lateral (
        select webhook_id, delivery_id from webhook_deliveries
        where webhook_id = given.webhook_id and state = 1 and due_at <= clock.now
        order by due_at, event_id limit given.room for update skip locked
    ) as due
    where webhooks.state = 1 and webhooks.held_until <= clock.now
    limit $5::bigint
)
update webhook_deliveries set due_at = clock.now + $4::bigint, attempt = attempt + 1, tries = tries + 1
from picked, clock
where webhook_deliveries.webhook_id = picked.webhook_id and webhook_deliveries.delivery_id = picked.delivery_id
returning webhook_deliveries.webhook_id, webhook_deliveries.delivery_id, event_id, kind, attempt, tries, log, body
