-- Finds a session that is not over by one of its tokens or by its id, and what its key may do. ?1 is now.
select sessions.session_id, sessions.key_id, sessions.key_hash, sessions.made_at, sessions.seen_at, sessions.rotated_at,
    coalesce(sessions.token_hash = ?2, false), sessions.old_hash is not null and sessions.old_until is null,
    api_keys.scopes, api_keys.namespace,
    coalesce(api_keys.id is not null and api_keys.revoked_at is null and coalesce(api_keys.expires_at > ?1, true)
        and (sessions.key_hash is null or sessions.key_hash = api_keys.hash
            or sessions.key_hash = api_keys.old_hash and api_keys.old_until > ?1), false)
from sessions left join api_keys on api_keys.id = sessions.key_id
where (sessions.session_id = ?3 or sessions.token_hash = ?2
        or sessions.old_hash = ?2 and coalesce(sessions.old_until > ?1, true))
    and sessions.expires_at > ?1 and sessions.seen_at > ?1 - ?4
