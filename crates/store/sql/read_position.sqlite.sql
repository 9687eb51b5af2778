-- How many claimable runs stand before a claimable one in its queue, up to ?2.
select (
    select count(*) from (
        select 1
        from lanes join live as other on other.lane_id = lanes.lane_id
        where lanes.queue_id = live.queue_id and other.place = 0
            and (other.level, other.order_at, other.run_id) < (live.level, live.order_at, live.run_id)
        limit ?2))
from live
where run_id = ?1 and place = 0
