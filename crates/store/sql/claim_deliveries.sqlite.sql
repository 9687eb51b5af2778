-- Takes deliveries of a webhook that are due, until a deadline.
update webhook_deliveries set due_at = ?1 + ?4, attempt = attempt + 1, tries = tries + 1
where webhook_id = ?2 and delivery_id in (
    select due.delivery_id from webhook_deliveries as due join webhooks on webhooks.webhook_id = due.webhook_id
    where due.webhook_id = ?2 and due.state = 1 and due.due_at <= ?1 and webhooks.state = 1 and webhooks.held_until <= ?1
    order by due.due_at, due.event_id limit ?3
)
returning webhook_id, delivery_id, event_id, kind, attempt, tries, log, body
