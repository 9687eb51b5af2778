-- Deletes sessions that are over. ?1 is now.
delete from sessions where session_id in (
    select session_id from sessions where expires_at <= ?1 or seen_at <= ?1 - ?2 limit ?3
)
