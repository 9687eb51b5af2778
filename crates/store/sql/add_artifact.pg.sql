-- Notes a file that is about to be written. A result only while its lease is the live one; says whether it is.
with held as materialized (
    select 1 from live where live.run_id = $4::uuid and live.epoch = $6::bigint and live.state in (1, 2) for key share
),
added as (
    insert into artifacts (artifact_id, namespace, run_id, kind, epoch, created_at, name, path)
    select $2::uuid, $3::text, $4, $5::smallint, $6,
        coalesce($1::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint), $7::text, $8::text
    where $4 is null or exists (select 1 from held)
    on conflict (artifact_id) do nothing
)
select $4 is null or exists (select 1 from held)
