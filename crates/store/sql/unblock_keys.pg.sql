-- Makes runs claimable that wait for these keys, as far as the keys have room. Held runs are counted as in count_keys.
with asked as (select distinct queue_id, key from unnest($1::integer[], $2::text[]) as asked(queue_id, key)),
room as (
    select asked.queue_id, asked.key, case
        when queues.key_limit is null then $3::bigint
        else greatest(0, least($3, queues.key_limit - (
            select count(*) from live
            where live.queue_id = asked.queue_id and live.key = asked.key and live.place = (select 3::smallint)
        )))
    end as runs
    from asked join queues using (queue_id)
),
chosen as materialized (
    select first.run_id from room cross join lateral (
        select live.run_id from live
        where live.queue_id = room.queue_id and live.key = room.key and live.place = 2
        order by live.level, live.order_at, live.run_id limit room.runs
        for update skip locked
    ) first
)
update live set place = 0
where run_id = any(array(select run_id from chosen))
returning live.lane_id, live.level, live.order_at
