-- Forgets the links of a key that sign in once.
delete from signin_links where key_id = $1::text
