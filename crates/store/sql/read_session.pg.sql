-- Finds a session that is not over by one of its tokens or by its id, and what its key may do.
select sessions.session_id, sessions.key_id, sessions.key_hash, sessions.made_at, sessions.seen_at, sessions.rotated_at,
    coalesce(sessions.token_hash = $2::bytea, false) as is_newest, sessions.old_hash is not null and sessions.old_until is null as is_unused,
    api_keys.scopes, api_keys.namespace, clock.now,
    coalesce(api_keys.id is not null and api_keys.revoked_at is null and coalesce(api_keys.expires_at > clock.now, true)
        and (sessions.key_hash is null or sessions.key_hash = api_keys.hash
            or sessions.key_hash = api_keys.old_hash and api_keys.old_until > clock.now), false) as is_key_good
from (select coalesce($1::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as now) clock
cross join sessions left join api_keys on api_keys.id = sessions.key_id
where (sessions.session_id = $3::uuid or sessions.token_hash = $2
        or sessions.old_hash = $2 and coalesce(sessions.old_until > clock.now, true))
    and sessions.expires_at > clock.now and sessions.seen_at > clock.now - $4::bigint
