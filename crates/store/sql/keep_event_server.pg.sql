-- Says what a server listens for and what it writes. One that does neither is forgotten.
with clock as (
    select coalesce($1::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as now
), gone as (
    delete from event_servers where server = $2::text and $3::integer | $4::integer = 0
)
insert into event_servers (server, wants, writes, until)
select $2, $3, $4, clock.now + $5::bigint from clock where $3 | $4 <> 0
on conflict (server) do update set wants = excluded.wants, writes = excluded.writes, until = excluded.until
