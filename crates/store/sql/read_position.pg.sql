-- Counts the claimable runs that stand before a claimable one in its queue, up to a cap. `place + 0` as in pick_runs.
select (
    select count(*) from (
        select 1 from lanes cross join lateral (
            select 1 from live as other
            where other.lane_id = lanes.lane_id and other.place = 0
              and (other.level, other.order_at, other.run_id) < (live.level, live.order_at, live.run_id)
            limit $2::bigint
        ) before
        where lanes.queue_id = live.queue_id
        limit $2
    ) counted
)
from live
where run_id = $1::uuid and place + 0 = 0
