-- Moves builds that have ended from those that are counted one by one to the totals. Other servers take others.
with done as materialized (
    select builds.run_id, ended.state
    from builds
    cross join lateral (select ended.state from ended where ended.run_id = builds.run_id limit 1) ended
    where builds.outcome is null
    order by builds.run_id limit $1::bigint
    for update of builds skip locked
),
counted as (
    update builds set outcome = done.state from done where builds.run_id = done.run_id
    returning builds.namespace, builds.outcome
)
insert into build_totals (namespace, outcome, builds)
select counted.namespace, counted.outcome, count(*)
from counted
group by counted.namespace, counted.outcome
order by counted.namespace, counted.outcome
on conflict (namespace, outcome) do update set builds = build_totals.builds + excluded.builds
