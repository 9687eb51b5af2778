-- Has dead deliveries of a webhook tried again, from the beginning, the oldest first.
update webhook_deliveries set state = 1, due_at = ?1, tries = 0, ended_at = null
where webhook_id = ?2 and delivery_id in (
    select delivery_id from webhook_deliveries where webhook_id = ?2 and state = 3 and ended_at >= ?3
    order by ended_at limit ?4
)
