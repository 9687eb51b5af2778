-- The keys that have blocked runs.
select distinct queue_id, key from live where place = 2 order by queue_id, key
