-- The queue of a lane, how much could be claimed in the lane, not counting runs that wait for their key, and when the oldest of its first runs became
-- due. Counts stop at ?2; ?3 is now.
select
    (select queue_id from lanes where lane_id = ?1),
    (select count(*) from (select 1 from live where place = 0 and lane_id = ?1 limit ?2))
        + (select count(*) from (select 1 from live where place = 1 and lane_id = ?1 and due_at <= ?3 limit ?2)),
    (select min(due_at) from (
        select min(due_at) as due_at from (select due_at from live
            where place = 0 and lane_id = ?1 order by level, order_at, run_id limit 1000)
        union all
        select min(due_at) from live where place = 1 and lane_id = ?1 and due_at <= ?3
    ))
