-- Finds out which lanes have claimable runs, beginning at the hints, and when the next run of each becomes due.
with clock as materialized (select coalesce($1::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as now)
select wanted.lane_id,
    coalesce(queues.paused_until, 0) <= clock.now and (
        exists (
            select 1 from generate_series(0, $4::integer - 1) as step(level)
            cross join lateral (
                select 1 from live
                where live.lane_id = wanted.lane_id and live.level = step.level and live.place = 0
                  and live.order_at >= ($3::bigint[])[(wanted.ordinal - 1) * $4 + step.level + 1]
                order by live.order_at limit 1
            ) ready
        )
        or (
            select live.due_at from live where live.lane_id = wanted.lane_id and live.place = 1
            order by live.due_at limit 1
        ) <= clock.now
    ) is true as is_ready,
    (
        select live.due_at - clock.now from live
        where live.lane_id = wanted.lane_id and live.place = 1 and live.due_at > clock.now
        order by live.due_at limit 1
    ) as due_in_ms
from clock cross join unnest($2::integer[]) with ordinality as wanted(lane_id, ordinal)
join lanes on lanes.lane_id = wanted.lane_id
join queues on queues.queue_id = lanes.queue_id
order by wanted.ordinal
