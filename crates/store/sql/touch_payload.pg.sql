-- Somebody is about to refer to a payload. No row: it is being removed, or gone.
update payloads set looked_at = clock.now, unused_since = clock.now
from (select coalesce($1::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as now) clock
where payloads.payload_id = $2::uuid and not payloads.doomed
returning payloads.payload_id
