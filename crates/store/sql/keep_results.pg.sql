-- Marks results of leases that completed their builds as needed, so that the collector does not look at them again.
with kept as materialized (
    select artifacts.artifact_id
    from artifacts
    cross join lateral (
        select 1 from ended
        where ended.run_id = artifacts.run_id and ended.epoch = artifacts.epoch and ended.state = 4 limit 1
    ) ended
    where artifacts.uses = 0 and artifacts.kind = 2 and artifacts.size is not null and artifacts.doomed_at is null
    order by artifacts.created_at, artifacts.artifact_id limit $1::bigint
    for update of artifacts skip locked
)
update artifacts set uses = 1 where artifact_id = any(array(select artifact_id from kept))
