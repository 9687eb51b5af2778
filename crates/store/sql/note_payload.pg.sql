-- Notes a payload that is about to be written to the storage. Nobody refers to it yet.
insert into payloads (payload_id, reference, looked_at, unused_since)
select $2::uuid, $3::bytea, clock.now, clock.now
from (select coalesce($1::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as now) clock
on conflict (payload_id) do nothing
