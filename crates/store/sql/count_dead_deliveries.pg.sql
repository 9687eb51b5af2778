-- How many dead deliveries each of these webhooks has.
select webhook_id, count(*) from webhook_deliveries
where webhook_id = any ($1::uuid[]) and state = 3
group by webhook_id
