-- Adds an API key, unless it is there already.
insert into api_keys (id, hash, name, scopes, namespace, created_at)
values ($2::text, $3::bytea, $4::text, $5::text, $6::text, coalesce($1::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint))
on conflict do nothing
returning id
