-- Revokes an API key; one that was revoked before keeps its time.
update api_keys set revoked_at = coalesce(revoked_at, coalesce($1::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint)) where id = $2::text
returning id
