-- Writes a block of statistics, unless its server has written it before.
with clock as (
    select coalesce($1::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as now
), fresh as (
    insert into statistics_servers as known (server, seq, at)
    select $2::text, $3::bigint, clock.now from clock
    on conflict (server) do update set seq = excluded.seq, at = excluded.at where known.seq < excluded.seq
    returning 1
), written as (
    insert into statistics (server, seq, at, step_ms, body)
    select $2, $3, $4::bigint, $5::bigint, $6::bytea from fresh
)
select now from clock
