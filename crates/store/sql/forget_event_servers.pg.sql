-- Forgets servers that have not been heard of, and says what they wrote.
with clock as (
    select coalesce($1::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as now
)
delete from event_servers using clock where event_servers.until < clock.now
returning writes
