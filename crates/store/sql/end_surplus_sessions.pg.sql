-- Ends the sessions of a key that were not seen for longest, beyond the most that it may have.
delete from sessions where session_id in (
    select session_id from sessions where key_id = $1::text order by seen_at desc, made_at desc, session_id offset $2::bigint
)
