-- Forgets deliveries that ended in this state: long ago, or before so many others of their webhook.
with clock as (
    select coalesce($1::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as now
)
delete from webhook_deliveries using (
    select old.webhook_id, old.delivery_id
    from webhooks cross join clock cross join lateral (
        select webhook_id, delivery_id, ended_at, row_number() over (order by ended_at desc, delivery_id desc) as place
        from webhook_deliveries where webhook_id = webhooks.webhook_id and state = $2::smallint
    ) as old
    where old.place > $4::bigint or old.ended_at < clock.now - $3::bigint
    limit $5::bigint
) as gone
where webhook_deliveries.webhook_id = gone.webhook_id and webhook_deliveries.delivery_id = gone.delivery_id
    and webhook_deliveries.state = $2::smallint
returning 1
