-- Counts the first ?1 builds that have ended and are not counted yet.
insert into build_totals (namespace, outcome, builds)
select namespace, state, count(*)
from (
    select builds.namespace, ended.state
    from builds indexed by builds_open cross join ended on ended.run_id = builds.run_id
    where builds.outcome is null
    order by builds.run_id limit ?1
)
where true
group by namespace, state
on conflict (namespace, outcome) do update set builds = build_totals.builds + excluded.builds
