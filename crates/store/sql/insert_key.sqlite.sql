-- Adds an API key, unless it is there.
insert into api_keys (id, hash, name, scopes, namespace, created_at, expires_at)
select ?1, ?2, ?3, ?4, ?5, ?6, ?6 + ?7
where not exists (select 1 from api_keys where old_hash = ?2)
on conflict do nothing
