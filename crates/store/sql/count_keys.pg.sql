-- Counts the held runs of keys.
select wanted.key, (
    select count(*) from live where live.queue_id = $1::integer and live.key = wanted.key and live.place = 3
) as held
from unnest($2::text[]) as wanted(key)
