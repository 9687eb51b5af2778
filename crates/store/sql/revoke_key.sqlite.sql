-- Revokes an API key; the first time counts.
update api_keys set revoked_at = coalesce(revoked_at, ?2) where id = ?1
