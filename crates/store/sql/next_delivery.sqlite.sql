-- When the next delivery of a webhook is due.
select max(due.due_at, webhooks.held_until)
from webhook_deliveries as due join webhooks on webhooks.webhook_id = due.webhook_id
where due.webhook_id = ?1 and due.state = 1 and webhooks.state = 1
order by due.due_at limit 1
