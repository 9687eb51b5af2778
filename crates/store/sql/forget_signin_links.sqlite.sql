-- Deletes links that are over. ?1 is now.
delete from signin_links where link_hash in (select link_hash from signin_links where expires_at <= ?1 limit ?2)
