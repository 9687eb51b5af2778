-- Says that another storage has the installation's files.
insert into meta (key, value) values ('storage_mark', $1)
on conflict (key) do update set value = excluded.value
