-- Counts the held runs of keys. The place is a subquery so that the planner walks the index of keys, and not that of all held
-- runs, which it believes to be tiny whenever it last counted while there were none.
select wanted.key, (
    select count(*) from live where live.queue_id = $1::integer and live.key = wanted.key and live.place = (select 3::smallint)
) as held
from unnest($2::text[]) as wanted(key)
