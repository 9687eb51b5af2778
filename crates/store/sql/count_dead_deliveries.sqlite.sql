-- How many dead deliveries a webhook has.
select count(*) from webhook_deliveries where webhook_id = ?1 and state = 3
