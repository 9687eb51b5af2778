-- Deliveries of a webhook, in one state or all, newest first.
select webhook_id, delivery_id, event_id, kind, subject, state, due_at, attempt, tries, log, created_at, ended_at
from webhook_deliveries
where webhook_id = ?1 and (?2 is null or state = ?2) and (?3 is null or delivery_id < ?3)
order by delivery_id desc limit ?4
