-- Makes a draft that is all there the result of a lease, while that is the live one. Says whether it did.
with held as materialized (
    select 1 from live where live.run_id = $2::uuid and live.epoch = $3::bigint and live.state in (1, 2) for key share
),
bound as (
    update artifacts set kind = 2, run_id = $2, epoch = $3
    where artifact_id = $1::uuid and kind = 3 and size is not null and doomed_at is null and exists (select 1 from held)
    returning 1
)
select exists (select 1 from bound)
