-- Gives an API key another secret. The one it has stays good for ?4; one from before that is forgotten. ?2 is now.
update api_keys set old_hash = hash, old_until = ?2 + ?4, hash = ?3, expires_at = coalesce(?2 + ?5, expires_at)
where id = ?1 and revoked_at is null
