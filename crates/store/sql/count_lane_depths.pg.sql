-- Counts what could be claimed in each lane, up to a cap, and finds when the oldest of it became due. As in count_depths the
-- oldest is looked for among the first runs of each lane only. Runs that wait for their key have no index by lane: they are
-- counted once for each queue, up to the cap.
with clock as materialized (select coalesce($1::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as now),
blocked as materialized (
    select found.lane_id, count(*) as runs, min(found.due_at) as oldest
    from (select distinct lanes.queue_id from lanes where lanes.lane_id = any($2::integer[])) queue
    cross join lateral (
        select live.lane_id, live.due_at from live where live.queue_id = queue.queue_id and live.place = 2 limit $3::bigint
    ) found
    group by found.lane_id
)
select
    wanted.lane_id,
    least(ready.runs + due.runs + coalesce(blocked.runs, 0), $3) as ready,
    clock.now - least(oldest.due_at, due.oldest, blocked.oldest) as oldest_ms
from clock cross join unnest($2) with ordinality as wanted(lane_id, ordinal)
cross join lateral (
    select count(*) as runs from (
        select 1 from live where live.lane_id = wanted.lane_id and live.place = 0
        order by live.level, live.order_at limit $3
    ) first
) ready
cross join lateral (
    select min(first.due_at) as due_at from (
        select live.due_at from live where live.lane_id = wanted.lane_id and live.place = 0
        order by live.level, live.order_at, live.run_id limit 1000
    ) first
) oldest
cross join lateral (
    select count(*) as runs, min(first.due_at) as oldest from (
        select live.due_at from live
        where live.lane_id = wanted.lane_id and live.place = 1 and live.due_at <= clock.now
        order by live.due_at limit $3
    ) first
) due
left join blocked on blocked.lane_id = wanted.lane_id
order by wanted.ordinal
