-- Keeps a fact of the installation, unless there is one.
insert into meta (key, value) values (?1, ?2) on conflict do nothing
