-- Keeps the mark of the installation's storage, or reads the one that is kept already.
insert into meta (key, value) values ('storage_mark', $1)
on conflict (key) do update set value = meta.value
returning value
