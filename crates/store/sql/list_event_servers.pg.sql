-- What servers listen for, but this one, and how many of them have not been heard of.
with clock as (
    select coalesce($1::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as now
)
select wants, until < clock.now as is_gone from event_servers, clock where server <> $2::text
