-- Gives an API key another secret. The one it has stays good for ?4, but no longer than it would have been; one from before
-- that is forgotten. ?2 is now.
update api_keys set old_hash = hash, old_until = min(?2 + ?4, coalesce(expires_at, ?2 + ?4)), hash = ?3, expires_at = coalesce(?2 + ?5, expires_at)
where id = ?1 and revoked_at is null
