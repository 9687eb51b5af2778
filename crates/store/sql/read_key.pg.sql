-- Finds an API key by the hash of its secret, or of the one before, which is good for a while.
select id, name, scopes, namespace, created_at, revoked_at, expires_at, used_at, old_until, coalesce(expires_at <= clock.now, false) or hash <> $2::bytea and old_until <= clock.now as is_over
from api_keys cross join (select coalesce($1::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as now) clock
where hash = $2 or old_hash = $2
