-- Begins a session.
insert into sessions (session_id, token_hash, key_id, key_hash, made_at, seen_at, rotated_at, expires_at)
select $2::uuid, $3::bytea, $4::text, $5::bytea, clock.now, clock.now, clock.now, clock.now + $6::bigint
from (select coalesce($1::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as now) clock
