-- As pick_runs, but reads on past runs that somebody else has locked, and so cannot tell what stands between its runs.
with found as (
    select first.*, sum(first.size) over (order by first.level, first.order_at, first.run_id) - first.size as size_before
    from unnest($2::integer[], $3::bigint[]) with ordinality as wanted(lane_id, take, ordinal)
    cross join lateral (
        select ready.*
        from generate_series(0, $5::integer - 1) as step(level)
        cross join lateral (
            select live.run_id, live.lane_id, live.level, live.order_at, live.key, live.affinity, live.ctid::text as spot, live.size
            from live
            where live.lane_id = wanted.lane_id and live.level = step.level and live.place = 0
              and live.order_at >= ($4::bigint[])[(wanted.ordinal - 1) * $5 + step.level + 1]
            order by live.order_at, live.run_id limit wanted.take
            for update skip locked
        ) ready
        limit wanted.take
    ) first
    limit $6::bigint
),
picked as materialized (select * from found where size_before < $7::bigint)
select picked.run_id, picked.lane_id, picked.level, picked.order_at, true as is_ours, picked.key,
    case when picked.affinity is not null then
        (select affinity.worker_name from affinity where affinity.queue_id = $1::integer and affinity.key = picked.affinity)
    end as preferred, picked.spot, picked.size
from picked
order by picked.level, picked.order_at, picked.run_id
