-- Counts builds by state; -1 are those submitted since ?2, which is the smallest identifier of that time. What ended long ago is in
-- build_totals.
select state, sum(builds)
from (
    select outcome as state, builds from build_totals where ?1 is null or namespace = ?1
    union all
    select coalesce(
        (select state from live where live.run_id = builds.run_id), (select state from ended where ended.run_id = builds.run_id)), 1
    from builds
    where outcome is null and (?1 is null or namespace = ?1)
    union all
    select -1, count(*) from builds where run_id >= ?2 and (?1 is null or namespace = ?1)
)
where state is not null
group by state
