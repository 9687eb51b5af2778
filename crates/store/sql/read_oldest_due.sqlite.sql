-- Since when the oldest claimable run of a queue is due; ?2 is now. Looks at the first runs of each lane only: the oldest
-- stands among them unless more than that many keyed or returned runs were put before it.
select min(due_at) from (
    select (select min(due_at) from (select due_at from live
        where place = 0 and lane_id = lanes.lane_id order by level, order_at, run_id limit 1000)) as due_at
    from lanes where queue_id = ?1
    union all
    select (select min(due_at) from live where place = 1 and lane_id = lanes.lane_id and due_at <= ?2)
    from lanes where queue_id = ?1
    union all
    select min(due_at) from (select due_at from live where place = 2 and queue_id = ?1 limit 1000)
)
