-- How much is in a queue. Each count stops at ?2; ?3 is now. place: 0 ready, 1 later, 2 blocked, 3 held.
-- Held runs have no index by queue, but there are never more of them than the workers can hold.
select
    (select count(*) from (select 1 from live
        where place = 0 and lane_id in (select lane_id from lanes where queue_id = ?1) limit ?2)),
    (select count(*) from (select 1 from live
        where place = 1 and lane_id in (select lane_id from lanes where queue_id = ?1) and due_at <= ?3 limit ?2)),
    (select count(*) from (select 1 from live where place = 2 and queue_id = ?1 limit ?2)),
    (select count(*) from (select 1 from live
        where place = 1 and lane_id in (select lane_id from lanes where queue_id = ?1) and due_at > ?3 and state = 0 limit ?2)),
    (select count(*) from (select 1 from live
        where place = 1 and lane_id in (select lane_id from lanes where queue_id = ?1) and due_at > ?3 and state = 3 limit ?2)),
    (select count(*) from (select 1 from live indexed by live_held where place = 3 and queue_id = ?1 limit ?2))
