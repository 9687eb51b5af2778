-- Notes that the first ?1 builds that have ended are counted.
update builds set outcome = (select state from ended where ended.run_id = builds.run_id)
where run_id in (
    select builds.run_id
    from builds indexed by builds_open cross join ended on ended.run_id = builds.run_id
    where builds.outcome is null
    order by builds.run_id limit ?1)
