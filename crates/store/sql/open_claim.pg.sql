-- Begins a claim: reads the queue, makes runs claimable that have become due, and finds when the next one does.
with clock as materialized (select coalesce($1::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as now),
queue as materialized (select * from queues where queue_id = $2::integer),
due as materialized (
    select soonest.run_id
    from clock join queue on coalesce(queue.paused_until, 0) <= clock.now
    cross join unnest($3::integer[]) as wanted(lane_id)
    cross join lateral (
        select live.run_id from live
        where live.lane_id = wanted.lane_id and live.place = 1 and live.due_at <= clock.now
        order by live.due_at limit $4::bigint
        for update skip locked
    ) soonest
),
promoted as (
    update live set place = 0, order_at = due_at
    where run_id = any(array(select run_id from due))
    returning live.lane_id, live.level, live.order_at
),
lowest as (select lane_id, level, min(order_at) as order_at, count(*) as runs from promoted group by lane_id, level)
select clock.now, queue.paused_until, queue.rate_per_second, queue.key_limit,
    (
        select min(soonest.due_at) from unnest($3) as wanted(lane_id)
        cross join lateral (
            select live.due_at from live
            where live.lane_id = wanted.lane_id and live.place = 1 and live.due_at > clock.now
            order by live.due_at limit 1
        ) soonest
    ) as next_due_at,
    promoted.*
from clock cross join queue
cross join (
    select coalesce(sum(runs), 0)::bigint as promoted, array_agg(lane_id) as lanes, array_agg(level) as levels,
           array_agg(order_at) as places
    from lowest
) promoted
