-- Counts builds by state; -1 are those submitted since $2, which is the smallest identifier of that time. What ended long ago is in
-- build_totals; the rest is looked up one by one, whatever the planner believes of the tables.
select counted.state, sum(counted.builds)::bigint as builds
from (
    select build_totals.outcome as state, build_totals.builds
    from build_totals
    where $1::text is null or build_totals.namespace = $1
    union all
    select coalesce(live.state, ended.state), 1
    from builds
    left join lateral (select live.state from live where live.run_id = builds.run_id limit 1) live on true
    left join lateral (select ended.state from ended where ended.run_id = builds.run_id limit 1) ended on true
    where builds.outcome is null and ($1 is null or builds.namespace = $1)
    union all
    select -1::smallint, count(*) from builds where builds.run_id >= $2::uuid and ($1 is null or builds.namespace = $1)
) counted
where counted.state is not null
group by counted.state
