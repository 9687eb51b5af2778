-- Picks the first claimable runs of each lane and locks those that nobody else has locked.
-- Each lane is walked level by level from its hint, and the walk ends as soon as it has enough: a lateral join visits the
-- levels in order, so only the heads of the index are read. $6 is the sum of $3: it takes nothing away, but the planner,
-- which cannot guess the others, needs it. The `case` keeps the planner from looking runs up in the index of claimable ones,
-- which it believes to be tiny whenever it last counted while there were none.
with found as (
    select first.*, sum(first.size) over (order by first.level, first.order_at, first.run_id) - first.size as size_before
    from unnest($2::integer[], $3::bigint[]) with ordinality as wanted(lane_id, take, ordinal)
    cross join lateral (
        select ready.*
        from generate_series(0, $5::integer - 1) as step(level)
        cross join lateral (
            select live.run_id, live.lane_id, live.level, live.order_at, live.size
            from live
            where live.lane_id = wanted.lane_id and live.level = step.level and live.place = 0
              and live.order_at >= ($4::bigint[])[(wanted.ordinal - 1) * $5 + step.level + 1]
            order by live.order_at, live.run_id limit wanted.take
        ) ready
        limit wanted.take
    ) first
    limit $6::bigint
),
picked as materialized (select * from found where size_before < $7::bigint)
select picked.run_id, picked.lane_id, picked.level, picked.order_at, free.run_id is not null as is_ours, free.key,
    case when free.affinity is not null then
        (select affinity.worker_name from affinity where affinity.queue_id = $1::integer and affinity.key = free.affinity)
    end as preferred, free.spot, picked.size
from picked
-- Not a join of two lists: the planner, which believes them short, would compare each with each.
left join lateral (
    select live.run_id, live.key, live.affinity, live.ctid::text as spot from live
    where live.run_id = picked.run_id and case when live.place = 0 then true end
    for update skip locked
) free on true
order by picked.level, picked.order_at, picked.run_id
