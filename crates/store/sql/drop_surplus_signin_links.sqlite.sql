-- Forgets the oldest links of a key, beyond the most that it may have.
delete from signin_links where link_hash in (
    select link_hash from signin_links where key_id = ?1 order by made_at desc, link_hash limit -1 offset ?2
)
