-- An API key may end by itself, and have two secrets for a while: the one that it was given last, and the one before.
alter table api_keys add column expires_at bigint;
alter table api_keys add column used_at bigint;
alter table api_keys add column old_hash bytea;
alter table api_keys add column old_until bigint;
create unique index api_keys_old_hash on api_keys (old_hash) where old_hash is not null;
