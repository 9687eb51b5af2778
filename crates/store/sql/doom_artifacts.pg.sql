-- Gives up files that nobody can ever read. Epochs only grow and ends are for ever, so a result that looks dead is dead; a submitted
-- file that somebody stores or takes at this moment is locked, or has changed when the lock is had, and is left alone.
with chosen as materialized (
    select artifacts.artifact_id
    from artifacts
    left join lateral (
        select live.epoch, live.state from live where live.run_id = artifacts.run_id limit 1
    ) live on true
    left join lateral (
        select ended.epoch, ended.state from ended where ended.run_id = artifacts.run_id limit 1
    ) ended on true
    where artifacts.uses = 0 and (
        artifacts.doomed_at is not null
        or case
            when artifacts.kind <> 2 then artifacts.run_id is not null or artifacts.created_at < $1::bigint - $2::bigint
            when ended.state is not null then
                ended.state <> 4 or ended.epoch <> artifacts.epoch or artifacts.size is null
                or exists (select 1 from artifacts kept where kept.run_id = artifacts.run_id and kept.kind = 2 and kept.uses > 0)
            when live.state is null then true
            else (live.state not in (1, 2) or live.epoch <> artifacts.epoch) and artifacts.created_at < $1 - $2
        end
    )
    order by artifacts.created_at, artifacts.artifact_id limit $3::bigint
    for update of artifacts skip locked
)
update artifacts set doomed_at = coalesce(doomed_at, $1)
where artifact_id = any(array(select artifact_id from chosen))
returning artifact_id, namespace, run_id, kind, epoch, created_at, size, sha256, name, path
