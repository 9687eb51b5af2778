-- Uses up a link, if it is good still. ?1 is now.
update signin_links set used_at = ?1 where link_hash = ?2 and used_at is null and expires_at > ?1
returning key_id, key_hash
