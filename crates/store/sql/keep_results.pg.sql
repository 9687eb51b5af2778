-- Marks the results that builds were completed with as needed: of the lease that completed a build the newest whose sum is in the
-- output, or else the newest. Those beside it are given up then.
with unsettled as materialized (
    select artifacts.run_id, artifacts.epoch, ended.output
    from artifacts
    cross join lateral (
        select ended.output from ended
        where ended.run_id = artifacts.run_id and ended.epoch = artifacts.epoch and ended.state = 4 limit 1
    ) ended
    where artifacts.uses = 0 and artifacts.kind = 2 and artifacts.size is not null and artifacts.doomed_at is null
    order by artifacts.created_at, artifacts.artifact_id limit $1::bigint
),
kept as materialized (
    select twin.artifact_id
    from unsettled
    cross join lateral (
        select twin.artifact_id from artifacts twin
        where twin.run_id = unsettled.run_id and twin.kind = 2 and twin.epoch = unsettled.epoch
          and twin.size is not null and twin.doomed_at is null
        order by position(convert_to(encode(twin.sha256, 'hex'), 'UTF8') in coalesce(unsettled.output, '')) > 0 desc,
            twin.created_at desc, twin.artifact_id desc
        limit 1
    ) twin
)
update artifacts set uses = 1 where uses = 0 and artifact_id = any(array(select artifact_id from kept))
