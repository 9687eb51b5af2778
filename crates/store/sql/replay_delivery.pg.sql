-- Has a delivery that has ended tried again, from the beginning.
with clock as (
    select coalesce($1::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as now
)
update webhook_deliveries set state = 1, due_at = clock.now, tries = 0, ended_at = null
from clock
where webhook_id = $2::uuid and delivery_id = $3::uuid and state > 1
returning 1
