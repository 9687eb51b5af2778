-- Keeps a link that signs in once. ?1 is now.
insert into signin_links (link_hash, key_id, key_hash, made_at, expires_at) values (?2, ?3, ?4, ?1, ?1 + ?5)
returning expires_at
