-- When the next delivery of these webhooks is due.
with clock as (
    select coalesce($1::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as now
)
select clock.now, min(greatest(next.due_at, webhooks.held_until)) as next_at
from clock left join (
    webhooks cross join lateral (
        select due_at from webhook_deliveries
        where webhook_deliveries.webhook_id = webhooks.webhook_id and webhook_deliveries.state = 1
        order by due_at limit 1
    ) as next
) on webhooks.webhook_id = any ($2::uuid[]) and webhooks.state = 1
group by clock.now
