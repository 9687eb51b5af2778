-- Sessions of the dashboard, and links that begin one. Only hashes of their tokens are kept.
create table sessions (
    session_id blob primary key,
    token_hash blob not null,
    -- The token before. It stays good until the new one has been used, and for a moment after that.
    old_hash blob,
    old_until integer,
    -- Whose it is: an API key, or a name that no key has.
    key_id text not null,
    -- The secret of the key that it was begun with, where there was one. It ends with that.
    key_hash blob,
    made_at integer not null,
    seen_at integer not null,
    rotated_at integer not null,
    expires_at integer not null
) without rowid;
create unique index sessions_by_token on sessions (token_hash);
create index sessions_by_old_token on sessions (old_hash) where old_hash is not null;
create index sessions_by_key on sessions (key_id);

create table signin_links (
    link_hash blob primary key,
    key_id text not null,
    key_hash blob,
    made_at integer not null,
    expires_at integer not null,
    used_at integer
) without rowid;
create index signin_links_by_key on signin_links (key_id);
