-- Notes that a session was seen. When its newest token was shown, the one before is good for a moment only. ?1 is now.
update sessions set seen_at = ?1,
    old_until = case when token_hash = ?3 and old_hash is not null then coalesce(old_until, ?1 + ?4) else old_until end
where session_id = ?2
