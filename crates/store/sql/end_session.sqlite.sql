-- Ends a session.
delete from sessions where session_id = ?1
