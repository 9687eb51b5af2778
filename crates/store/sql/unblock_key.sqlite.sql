-- Makes the first blocked runs of a key claimable: as many as the queue's limit has room for, or ?4 when there is no limit, and
-- never more than ?3. A negative limit would mean all of them to SQLite, hence the max.
update live set place = 0
where run_id in (
    select run_id from live
    where place = 2 and queue_id = ?1 and key = ?2
    order by level, order_at, run_id
    limit max(0, min(?3, coalesce(
        (select key_limit from queues where queue_id = ?1)
            - (select count(*) from live where queue_id = ?1 and key = ?2 and place = 3),
        ?4))))
returning lane_id
