-- Gives up files that nobody can ever read, at the time ?1; ?2 is the time before which those that might have been are too old.
update artifacts set doomed_at = coalesce(doomed_at, ?1)
where artifact_id in (
    select artifacts.artifact_id
    from artifacts indexed by artifacts_unused
    left join live on live.run_id = artifacts.run_id
    left join ended on ended.run_id = artifacts.run_id
    where artifacts.uses = 0 and (
        artifacts.doomed_at is not null
        or case
            when artifacts.kind <> 2 then artifacts.run_id is not null or artifacts.created_at < ?2
            when ended.state is not null then ended.state <> 4 or ended.epoch <> artifacts.epoch or artifacts.size is null
                or exists (select 1 from artifacts kept where kept.run_id = artifacts.run_id and kept.kind = 2 and kept.uses > 0)
            when live.state is null then true
            else (live.state not in (1, 2) or live.epoch <> artifacts.epoch) and artifacts.created_at < ?2
        end)
    order by artifacts.created_at, artifacts.artifact_id limit ?3)
returning artifact_id, namespace, run_id, kind, epoch, created_at, size, sha256, name, path
