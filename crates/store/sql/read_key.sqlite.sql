-- The API key with this hash.
select id, name, scopes, namespace, created_at, revoked_at from api_keys where hash = ?1
