-- Lists API keys, oldest first.
select id, name, scopes, namespace, created_at, revoked_at from api_keys order by created_at, id
