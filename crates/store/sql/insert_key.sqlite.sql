-- Adds an API key, unless it is there.
insert into api_keys (id, hash, name, scopes, namespace, created_at) values (?1, ?2, ?3, ?4, ?5, ?6) on conflict do nothing
