-- Forgets the oldest links of a key, beyond the most that it may have.
delete from signin_links where link_hash in (
    select link_hash from signin_links where key_id = $1::text order by made_at desc, link_hash offset $2::bigint
)
