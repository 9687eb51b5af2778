-- Marks results of leases that completed their builds as needed, so that the collector does not look at them again.
update artifacts set uses = 1
where artifact_id in (
    select artifacts.artifact_id
    from artifacts indexed by artifacts_unused cross join ended on ended.run_id = artifacts.run_id
    where artifacts.uses = 0 and artifacts.kind = 2 and artifacts.size is not null and artifacts.doomed_at is null
        and ended.epoch = artifacts.epoch and ended.state = 4
    order by artifacts.created_at, artifacts.artifact_id limit ?1)
