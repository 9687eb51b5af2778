-- One delivery.
select webhook_id, delivery_id, event_id, kind, subject, state, due_at, attempt, tries, log, created_at, ended_at
from webhook_deliveries where webhook_id = ?1 and delivery_id = ?2
