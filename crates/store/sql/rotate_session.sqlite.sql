-- Gives a session another token, unless somebody did so a moment ago. One that nobody has used yet may be replaced: it was
-- lost on its way. ?1 is now.
update sessions set token_hash = ?4, old_hash = ?3, old_until = null, rotated_at = ?1, seen_at = ?1
where session_id = ?2 and rotated_at <= ?1 - ?5 and (token_hash = ?3 or old_hash = ?3 and old_until is null)
