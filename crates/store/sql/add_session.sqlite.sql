-- Begins a session. ?1 is now.
insert into sessions (session_id, token_hash, key_id, key_hash, made_at, seen_at, rotated_at, expires_at)
values (?2, ?3, ?4, ?5, ?1, ?1, ?1, ?1 + ?6)
