-- Counts what is in each queue, up to a cap, and finds when its oldest claimable run became due. For that it looks at the
-- first runs of each lane only: the oldest stands among them unless more than that many keyed or returned runs were put
-- before it. Of runs due later only the first of each lane, twice the cap, are told apart.
-- Held runs have no index by queue, but there are never more of them than the workers can hold.
with clock as materialized (select coalesce($1::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as now)
select
    wanted.queue_id,
    least(ready.runs + due.runs + blocked.runs, $3::bigint) as ready,
    least(later.pending, $3) as scheduled,
    held.runs as held,
    least(later.sleeping, $3) as sleeping,
    clock.now - least(oldest.due_at, due.oldest, blocked.oldest) as oldest_ms
from clock cross join unnest($2::integer[]) with ordinality as wanted(queue_id, ordinal)
cross join lateral (
    select count(*) as runs from (
        select 1 from live where live.place = 3 and live.queue_id = wanted.queue_id limit $3
    ) found
) held
cross join lateral (
    select count(*) as runs from lanes cross join lateral (
        select 1 from live where live.lane_id = lanes.lane_id and live.place = 0
        order by live.level, live.order_at limit $3
    ) first
    where lanes.queue_id = wanted.queue_id
) ready
cross join lateral (
    select min(first.due_at) as due_at from lanes cross join lateral (
        select live.due_at from live where live.lane_id = lanes.lane_id and live.place = 0
        order by live.level, live.order_at, live.run_id limit 1000
    ) first
    where lanes.queue_id = wanted.queue_id
) oldest
cross join lateral (
    select count(*) as runs, min(first.due_at) as oldest from lanes cross join lateral (
        select live.due_at from live
        where live.lane_id = lanes.lane_id and live.place = 1 and live.due_at <= clock.now
        order by live.due_at limit $3
    ) first
    where lanes.queue_id = wanted.queue_id
) due
cross join lateral (
    select count(*) as runs, min(found.due_at) as oldest from (
        select live.due_at from live where live.queue_id = wanted.queue_id and live.place = 2 limit $3
    ) found
) blocked
cross join lateral (
    select count(*) filter (where first.state = 0) as pending, count(*) filter (where first.state = 3) as sleeping
    from lanes cross join lateral (
        select live.state from live
        where live.lane_id = lanes.lane_id and live.place = 1 and live.due_at > clock.now
        order by live.due_at limit 2 * $3
    ) first
    where lanes.queue_id = wanted.queue_id
) later
order by wanted.ordinal
