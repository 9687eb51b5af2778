-- Notes that a file is all there: unless it was given up, and a result only while its lease is the live one. True also when the
-- same was said before. Others than results grow old from now on.
with file as materialized (select run_id, epoch from artifacts where artifact_id = $1::uuid),
held as materialized (
    select 1 from live
    where live.run_id = (select file.run_id from file) and live.epoch = (select file.epoch from file) and live.state in (1, 2)
    for key share
),
stored as (
    update artifacts set size = $2::bigint, sha256 = $3::bytea, created_at = case
        when artifacts.kind = 2 then artifacts.created_at
        else coalesce($4::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint)
    end
    where artifacts.artifact_id = $1 and artifacts.size is null and artifacts.doomed_at is null
      and (artifacts.kind <> 2 or exists (select 1 from held))
    returning artifacts.namespace
),
counted as (
    insert into artifact_totals (namespace, bytes) select stored.namespace, $2 from stored
    on conflict (namespace) do update set bytes = artifact_totals.bytes + excluded.bytes
)
select exists (select 1 from stored) or exists (
    select 1 from artifacts where artifact_id = $1 and doomed_at is null and size = $2 and sha256 = $3
)
