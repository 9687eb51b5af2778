-- Adds a delivery of a webhook that is due now.
insert into webhook_deliveries (webhook_id, delivery_id, event_id, kind, subject, body, state, due_at, attempt, tries, log, created_at)
values (?2, ?3, ?4, ?5, ?6, ?7, 1, ?1, 0, 0, '', ?1)
