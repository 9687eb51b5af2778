-- A token was shown. The newest (?3 = token) is good, and so is the one before while the newest is unused; a new one is wanted when
-- ?4 is not null. Those from before it registered again are of no use; a dead one of its own revokes its builder, whatever the time. Time passes only for
-- polls: a builder needs its token for as long as it builds.
update builders set
    token = iif(?3 = token and ?4 is not null, token + 1, token),
    token_used = iif(?3 = token, ?4 is null, token_used),
    token_until = iif(?4 is not null and (?3 = token or ?3 = token - 1 and not token_used), ?1 + ?4, token_until),
    revoked_at = iif(?3 < token - 1 or ?3 = token - 1 and token_used, ?1, null)
where worker_id = ?2 and revoked_at is null and ?3 between first_token and token
    and (?4 is null or ?1 <= token_until or ?3 < token - 1 or ?3 = token - 1 and token_used)
returning namespace, name_id, worker_id, key_id, token, token_used, token_until, registered_at, revoked_at, succeeded, failed
