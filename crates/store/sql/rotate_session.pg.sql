-- Gives a session another token, unless somebody did so a moment ago. One that nobody has used yet may be replaced: it was
-- lost on its way.
update sessions set token_hash = $4::bytea, old_hash = $3::bytea, old_until = null, rotated_at = clock.now, seen_at = clock.now
from (select coalesce($1::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as now) clock
where session_id = $2::uuid and rotated_at <= clock.now - $5::bigint
    and (token_hash = $3 or old_hash = $3 and old_until is null)
returning session_id
