-- What happens at ?1 (now) and what comes next. place: 0 ready, 1 later, 2 blocked, 3 held; ?2 and everything after it is never.
-- First whether anything is under way: a run is held, the end of one is to be told, a deadline or a schedule is due. Then the runs that somebody could
-- claim. Then the next moment at which anything changes by itself: also of queues with a rate, and of fires that wait for the end of a run.
select
    exists (select 1 from live where place = 3)
        or exists (select 1 from outbox)
        or exists (select 1 from deadlines where at <= ?1)
        or exists (select 1 from schedules where next_at <= ?1),
    (select count(*) from live join queues on queues.queue_id = live.queue_id
        where (live.place = 0 or (live.place = 1 and live.due_at <= ?1)) and coalesce(queues.paused_until, 0) <= ?1),
    (select min(at) from (
        select min(due_at) as at from live where place = 1 and due_at > ?1 and due_at < ?2
        union all select min(at) from deadlines where at > ?1
        union all select min(next_at) from schedules where next_at > ?1
        union all select ?1 + 1000 from schedules where buffered_at is not null
        union all select min(paused_until) from queues where paused_until > ?1 and paused_until < ?2
        union all select ?1 + 1 + cast(1000 / rate_per_second as integer) from queues
            where rate_per_second > 0 and exists (select 1 from live where live.queue_id = queues.queue_id and live.place = 0)))
