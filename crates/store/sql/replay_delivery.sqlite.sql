-- Has a delivery that has ended tried again, from the beginning.
update webhook_deliveries set state = 1, due_at = ?1, tries = 0, ended_at = null
where webhook_id = ?2 and delivery_id = ?3 and state > 1
