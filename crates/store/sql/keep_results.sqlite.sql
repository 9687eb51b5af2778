-- Marks the results that builds were completed with as needed: of the lease that completed a build the newest whose sum is in the
-- output, or else the newest. Those beside it are given up then.
update artifacts set uses = 1
where artifact_id in (
    select (
        select twin.artifact_id from artifacts twin
        where twin.run_id = artifacts.run_id and twin.kind = 2 and twin.epoch = artifacts.epoch
            and twin.size is not null and twin.doomed_at is null
        order by instr(cast(coalesce(ended.output, '') as text), lower(hex(twin.sha256))) > 0 desc,
            twin.created_at desc, twin.artifact_id desc
        limit 1)
    from artifacts indexed by artifacts_unused cross join ended on ended.run_id = artifacts.run_id
    where artifacts.uses = 0 and artifacts.kind = 2 and artifacts.size is not null and artifacts.doomed_at is null
        and ended.epoch = artifacts.epoch and ended.state = 4
    order by artifacts.created_at, artifacts.artifact_id limit ?1)
