-- Finds what fair turns are reckoned from: the first claimable place of each lane and level, and the last waiting place of
-- each key on its level. Reads begin at the hints, below which nothing is claimable. The place of a key's runs
-- is a subquery for the reason given in count_keys.
select coalesce($1::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as now,
    (
        select live.order_at from live
        where live.lane_id = asked.lane_id and live.level = asked.level and live.place = 0
          and live.order_at >= asked.from_at
        order by live.order_at, live.run_id limit 1
    ) as head,
    greatest(
        (
            select live.order_at from live
            where live.queue_id = asked.queue_id and live.key = asked.key and live.place = (select 0::smallint)
              and live.level = asked.level
            order by live.order_at desc limit 1
        ),
        (
            select live.order_at from live
            where live.queue_id = asked.queue_id and live.key = asked.key and live.place = 2 and live.level = asked.level
            order by live.order_at desc limit 1
        )
    ) as last_of_key
from unnest($2::integer[], $3::integer[], $4::smallint[], $5::text[], $6::bigint[])
    with ordinality as asked(queue_id, lane_id, level, key, from_at, ordinal)
order by asked.ordinal
