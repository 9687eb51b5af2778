-- Finds keys with runs that wait although the key has room. Held runs are counted as in count_keys.
select waiting.queue_id, waiting.key
from (select distinct queue_id, key from live where place = 2 and key is not null) waiting
join queues using (queue_id)
where queues.key_limit is null or queues.key_limit > (
    select count(*) from live where live.queue_id = waiting.queue_id and live.key = waiting.key and live.place = (select 3::smallint)
)
limit $1::bigint
