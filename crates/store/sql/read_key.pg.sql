-- Finds an API key by its hash.
select id, name, scopes, namespace, created_at, revoked_at from api_keys where hash = $1::bytea
