-- Keeps a link that signs in once.
insert into signin_links (link_hash, key_id, key_hash, made_at, expires_at)
select $2::bytea, $3::text, $4::bytea, clock.now, clock.now + $5::bigint
from (select coalesce($1::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as now) clock
returning expires_at
