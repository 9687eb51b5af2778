-- Counts the claimable runs that stand before claimable ones in their queues, up to a cap. `place + 0` as in pick_runs.
select live.run_id, (
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
) as before
from unnest(array(select unnest($1::uuid[]))) as given(run_id)
cross join lateral (select * from live where live.run_id = given.run_id limit 1) as live
where live.place + 0 = 0
