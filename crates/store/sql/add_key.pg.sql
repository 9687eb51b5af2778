-- Adds an API key, unless it is there already.
insert into api_keys (id, hash, name, scopes, namespace, created_at, expires_at)
select $2::text, $3::bytea, $4::text, $5::text, $6::text, clock.now, clock.now + $7::bigint
from (select coalesce($1::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as now) clock
where not exists (select 1 from api_keys where old_hash = $3)
on conflict do nothing
returning id
