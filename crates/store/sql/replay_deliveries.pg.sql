-- Has dead deliveries of a webhook tried again, from the beginning, the oldest first.
with clock as (
    select coalesce($1::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as now
)
update webhook_deliveries set state = 1, due_at = clock.now, tries = 0, ended_at = null
from clock
where webhook_id = $2::uuid and delivery_id in (
    select delivery_id from webhook_deliveries
    where webhook_id = $2::uuid and state = 3 and ended_at >= $3::bigint
    order by ended_at limit $4::bigint
)
returning 1
