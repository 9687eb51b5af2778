-- Adds deliveries of a webhook that are due now.
with clock as (
    select coalesce($1::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as now
)
insert into webhook_deliveries (webhook_id, delivery_id, event_id, kind, subject, body, state, due_at, attempt, tries, log, created_at)
select $2::uuid, given.delivery_id, given.event_id, given.kind, given.subject, given.body, 1, clock.now, 0, 0, '', clock.now
from clock, unnest($3::uuid[], $4::bigint[], $5::text[], $6::text[], $7::bytea[])
    as given(delivery_id, event_id, kind, subject, body)
