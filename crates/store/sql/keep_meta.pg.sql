-- Keeps a fact of the installation, unless there is one.
insert into meta (key, value) values ($1::text, $2::bytea) on conflict (key) do nothing
