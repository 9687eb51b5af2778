-- Ends all sessions of a key.
delete from sessions where key_id = ?1
