-- Lists API keys, oldest first.
select id, name, scopes, namespace, created_at, revoked_at, expires_at, used_at, old_until, coalesce(expires_at <= clock.now, false) as is_over
from api_keys cross join (select coalesce($1::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as now) clock
order by created_at, id
