-- The API key whose secret has this hash, or the one before, which is good for a while. ?2 is now.
select id, name, scopes, namespace, created_at, revoked_at, expires_at, used_at, old_until, coalesce(expires_at <= ?2, false) or hash <> ?1 and old_until <= ?2 from api_keys where hash = ?1 or old_hash = ?1
