-- All API keys, oldest first. ?1 is now.
select id, name, scopes, namespace, created_at, revoked_at, expires_at, used_at, old_until, coalesce(expires_at <= ?1, false) from api_keys order by created_at, id
