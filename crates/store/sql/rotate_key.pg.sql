-- Gives an API key another secret. The one it has stays good for $4, but no longer than it would have been; one from before
-- that is forgotten.
update api_keys set old_hash = api_keys.hash, old_until = least(clock.now + $4::bigint, api_keys.expires_at), hash = $3::bytea,
    expires_at = coalesce(clock.now + $5::bigint, api_keys.expires_at)
from (select coalesce($1::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as now) clock
where api_keys.id = $2::text and api_keys.revoked_at is null
returning api_keys.id
