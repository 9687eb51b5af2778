-- Deletes a webhook with its deliveries.
delete from webhooks where webhook_id = ?1
