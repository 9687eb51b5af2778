-- Notes that a session was seen. When its newest token was shown, the one before is good for a moment only.
update sessions set seen_at = clock.now,
    old_until = case when token_hash = $3::bytea and old_hash is not null then coalesce(old_until, clock.now + $4::bigint) else old_until end
from (select coalesce($1::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as now) clock
where session_id = $2::uuid
